"""Values and facts <-> bytes: the front of the room. `__all__` is written out, nothing else happens here.

Reading and writing values is loaded at once; shapes, frames and errors when one of them is first used, so
that a command that only looks at a list of runs starts quickly.
"""

from typing import TYPE_CHECKING, Any

from perdure.codec.digest import GENESIS, Rolling, chain, digest
from perdure.codec.plain import plain
from perdure.codec.value import decode, encode

if TYPE_CHECKING:
    from perdure.codec.fault import encode_error, restore_error
    from perdure.codec.fitting import misfit
    from perdure.codec.frame import FORMAT, pack, unpack
    from perdure.codec.shape import Shape

__all__ = [
    "FORMAT",
    "GENESIS",
    "Rolling",
    "Shape",
    "chain",
    "decode",
    "digest",
    "encode",
    "encode_error",
    "misfit",
    "pack",
    "plain",
    "restore_error",
    "unpack",
]

if not TYPE_CHECKING:  # a type checker sees the imports above, and so refuses a misspelled name

    def __getattr__(name: str) -> Any:
        """Load the rest of the room."""
        if name not in __all__:
            raise AttributeError(f"module 'perdure.codec' has no attribute {name!r}")
        from perdure.codec import fault, fitting, frame, shape

        globals().update(
            encode_error=fault.encode_error,
            restore_error=fault.restore_error,
            misfit=fitting.misfit,
            FORMAT=frame.FORMAT,
            pack=frame.pack,
            unpack=frame.unpack,
            Shape=shape.Shape,
        )
        return globals()[name]
