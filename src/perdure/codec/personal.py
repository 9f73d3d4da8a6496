"""Personal data: a value that is kept only under the key of its run, and shown to nobody who does not ask.

`Personal` is what code holds; `sealed.Sealed` is what is kept of it. Between the two lie value bytes and the
vault in context.
"""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar, final

from perdure.codec.plain import Refused, Walk, lower, register
from perdure.codec.sealed import Sealed, Seen, vault_here
from perdure.codec.value import decode, encode

T = TypeVar("T")

SHOWN = "[personal]"
"""What stands in its place wherever it is shown."""


@final
class Personal(Generic[T]):
    """A value that is personal data: `Personal("Ada Lovelace")`. State, goals, arguments, results hold it.

    It is kept encrypted under a key of its run, which `erase` destroys; `repr`, `str`, JSON and every look
    show `[personal]`; `reveal()` gives the value. Two are equal if their values are.
    """

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        Seen.personal = True
        object.__setattr__(self, "_value", value)

    def __class_getitem__(cls, item: Any) -> Any:
        Seen.personal = True
        return super().__class_getitem__(item)  # type: ignore[misc]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Personal is not changed: put another one in its place")

    def reveal(self) -> T:
        """The value."""
        value: T = self._value  # type: ignore[attr-defined]
        return value

    def __repr__(self) -> str:
        return SHOWN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(SHOWN, spec)

    def __eq__(self, other: object) -> bool:
        return self.reveal() == other.reveal() if isinstance(other, Personal) else NotImplemented

    def __hash__(self) -> int:
        return hash((Personal, self.reveal()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Personal, (self.reveal(),)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """A field of a pydantic model: the value inside is judged by its own type, and told by no error."""
        from typing import get_args

        from pydantic_core import PydanticCustomError, core_schema

        inside = handler.generate_schema(*(get_args(source) or (Any,)))

        def judged(value: Any, judge: Any) -> Personal[Any]:
            try:
                return Personal(judge(value.reveal() if isinstance(value, Personal) else value))
            except Exception:  # noqa: BLE001  (a validator may raise anything, with the value in it)
                raise PydanticCustomError("personal", "personal data that does not fit") from None

        return core_schema.no_info_wrap_validator_function(judged, inside)


def _sealed(value: Personal[Any], walk: Walk, depth: int) -> Sealed:
    walk.special = True
    try:
        return vault_here().seal(encode(lower(value.reveal(), Walk(), depth)))
    except Refused as refused:
        refused.through(".reveal()", value)
        raise


register(Personal, _sealed)


def sealed(plain: Any) -> Sealed:
    """Plain data, sealed. Raises KeyMissing, PersonalErased."""
    return _sealed(Personal(plain), Walk(), 0)


def opened(sealed: Sealed) -> Personal[Any]:
    """What was sealed, as plain data. Raises KeyMissing, PersonalErased, Damaged."""
    return Personal(_within(decode(vault_here().unseal(sealed))))


def _within(plain: Any) -> Any:
    """The same with what is sealed inside it opened too."""
    kind = type(plain)
    if kind is Sealed:
        return opened(plain)
    if kind is dict:
        return {_within(key): _within(item) for key, item in plain.items()}
    return kind([_within(item) for item in plain]) if kind in (list, tuple, set, frozenset) else plain
