"""The declared types that the tests of shapes share: one of every kind."""

from __future__ import annotations

import collections
import datetime as dt
import enum
from dataclasses import InitVar, dataclass, field
from typing import (
    ClassVar,
    Generic,
    NamedTuple,
    NewType,
    NotRequired,
    TypedDict,
    TypeVar,
)

import msgspec

T = TypeVar("T")
U = TypeVar("U")
B = TypeVar("B", bound=str)


@dataclass
class Message:
    role: str
    content: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: float = 0.0


@dataclass
class Box(Generic[T]):
    item: T
    more: list[T] = field(default_factory=list)


@dataclass
class Both(Box[U], Generic[U, T]):
    other: T | None = None


@dataclass
class IntBox(Box[int]):
    name: str = ""


@dataclass
class Node:
    value: int
    kids: list[Node] = field(default_factory=list)
    parent: Node | None = None


@dataclass(kw_only=True)
class Special:
    a: int
    kind: ClassVar[str] = "special"
    hidden: int = field(default=7, init=False, repr=False)
    seed: InitVar[int] = 3
    total: int = field(init=False, default=0)

    def __post_init__(self, seed: int) -> None:
        self.total = self.a * seed


@dataclass
class Prepared:
    names: list[str]

    def __post_init__(self) -> None:
        self.index = {name: place for place, name in enumerate(self.names)}
        self.names = sorted(self.names)


@dataclass
class Guarded:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n is negative")


class Plainly:
    """No record."""


class Struct(msgspec.Struct):
    a: int
    b: list[Point] = []


class Cold(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, array_like=True):
    first_name: str
    at: dt.datetime | None = None


class Cat(msgspec.Struct, tag="cat"):
    name: str


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Generic1(msgspec.Struct, Generic[T]):
    item: T


class Partial(msgspec.Struct):
    a: int | msgspec.UnsetType = msgspec.UNSET


class Typed(TypedDict):
    role: str
    extra: NotRequired[list[Point]]


class Loose(TypedDict, total=False):
    a: int


class Pair(NamedTuple):
    first: Point
    second: str = "-"


Untyped = collections.namedtuple("Untyped", ["a", "b"])  # noqa: PYI024


class Job:
    class Phase(enum.StrEnum):
        A = "a"
        B = "b"
        ALIAS = "a"


class Color(enum.Enum):
    RED = 1
    DEEP = ("deep", 2)
    SPOT = Point(1)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Bits(enum.IntFlag):
    R = 1
    W = 2
    X = 4


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Mood(str, enum.Enum):  # noqa: UP042  (the older way to write a StrEnum)
    GOOD = "good"


OrderId = NewType("OrderId", str)


class Name(str):
    __slots__ = ()


class Cents(int):
    pass


class Names(list[Name]):
    pass


class Stock(dict[str, Point]):
    pass


MOMENT = dt.datetime(2026, 11, 29, tzinfo=dt.UTC)
