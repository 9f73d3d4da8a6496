"""Values and facts <-> bytes: the front of the room. `__all__` is written out, nothing else happens here."""

from perdure.codec.digest import GENESIS, Rolling, chain, digest
from perdure.codec.fault import encode_error, restore_error
from perdure.codec.frame import FORMAT, pack, unpack
from perdure.codec.plain import plain
from perdure.codec.shape import Shape
from perdure.codec.value import decode, encode

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
    "pack",
    "plain",
    "restore_error",
    "unpack",
]
