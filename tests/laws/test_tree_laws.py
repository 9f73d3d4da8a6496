"""Laws of the live state over random histories of steps, for every kind of state.

Each step changes the state at random places: appends, aliases, equal values of other types, moved keys,
changes deep inside, whole lists assigned. The same changes are made by a second live state, restored from
the committed form as after a crash. Law 18: after each commit the live state is what the folded state
restores to; both executions patch alike; a patch is the difference of the two plain forms and nothing else.
"""

from __future__ import annotations

import copy
import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any, NotRequired, TypedDict

import msgspec
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, PrivateAttr

from perdure.codec import Shape, decode, encode, plain
from perdure.codec.record import record_items
from perdure.errors import ShapeMismatch
from perdure.runtime import block, tree, watch
from perdure.runtime.places import ANYTHING, places_in
from perdure.runtime.scribe import Scribe
from perdure.runtime.tree import LiveState, argument_digest, lists_in
from perdure.state.events import Ref
from perdure.state.patch import apply, diff, exact, same

SEED = 20260402


class Mood(enum.StrEnum):
    """Equal to plain text, and something else."""

    CALM = "calm"
    GLAD = "glad"


@dataclass(frozen=True)
class Said:
    """Deeply immutable."""

    role: str
    text: str


@dataclass(frozen=True)
class Holder:
    """Frozen, and holds something that is not."""

    name: str
    items: list[Any] = field(default_factory=list)


@dataclass
class Turn:
    """A mutable record."""

    role: str
    mood: Mood = Mood.CALM
    parts: list[Any] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)


class Struct(msgspec.Struct, tag="struct"):
    """A tagged Struct."""

    name: str
    tags: list[str] = []
    turn: Turn | None = None


class Model(BaseModel):
    """A pydantic model with something that is not stored."""

    name: str
    count: int | None = None
    words: list[str] = []
    _hidden: int = PrivateAttr(default=0)


class Still(BaseModel):
    """A frozen pydantic model."""

    model_config = ConfigDict(frozen=True)

    name: str
    words: tuple[str, ...] = ()


class Soft(BaseModel):
    """A mutable pydantic model."""

    name: str
    count: int | None = None
    words: list[str] = []


class Open(TypedDict):
    """A state of dicts."""

    messages: list[dict[str, Any]]
    by: dict[str, list[Any]]
    note: NotRequired[Any]


@dataclass
class Inner:
    """Below the root."""

    turns: list[Turn] = field(default_factory=list)
    structs: list[Struct] = field(default_factory=list)
    odd: dict[int, list[int]] = field(default_factory=dict)


@dataclass
class Desk:
    """A state of dataclasses."""

    said: list[Said] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)
    log: list[Any] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    still: list[Still] = field(default_factory=list)
    soft: list[Soft] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    notes: dict[str, Any] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)
    current: Turn | None = None
    mood: Mood = Mood.CALM


class Pydantic(BaseModel):
    """A pydantic state."""

    said: list[Said] = []
    soft: list[Soft] = []
    title: str = ""


class Packed(msgspec.Struct):
    """A Struct state."""

    turns: list[Turn] = []
    by: dict[str, list[Said]] = {}
    structs: list[Struct] = []


@dataclass
class Counted:
    """A record whose own code looks at its whole list when it is made."""

    said: list[Said] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.index = {one.text: at for at, one in enumerate(self.said)}


EMPTY: dict[Any, Any] = {
    dict: {},
    list[Any]: [],
    list[Turn]: [],
    Open: {"messages": [], "by": {}},
    Desk: plain(Desk()),
    Pydantic: plain(Pydantic(said=[], soft=[], title="")),
    Packed: plain(Packed()),
    Counted: plain(Counted()),
}


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Short histories meet every edge of blocks and sums when these are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "BLOCK", 3)
        patch.setattr(block, "BULK", 2)
        patch.setattr(watch, "MARK", 4)
        patch.setattr(watch, "RECENT", 2)
        patch.setattr(tree, "WATCH_FROM", 1)
        yield


# ---------------------------------------------------------------------------------------- random changes

ATOMS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    0.0,
    -0.0,
    float("nan"),
    "",
    "a",
    "calm",
    2**70,
    b"x",
    Decimal("1.0"),
]


def anything(random: Random, depth: int = 0) -> Any:
    """Plain data, and an enum that equals some of it."""
    pick = random.randrange(9)
    if pick < 4 or depth > 2:
        return random.choice([*ATOMS, Mood.CALM])
    if pick < 6:
        return {random.choice("abcd"): anything(random, depth + 1) for _ in range(random.randrange(4))}
    if pick == 6:
        return tuple(anything(random, depth + 1) for _ in range(random.randrange(3)))
    if pick == 7:
        return {random.randrange(3) for _ in range(random.randrange(3))}
    return [anything(random, depth + 1) for _ in range(random.randrange(4))]


def made(random: Random, kind: Any) -> Any:
    """A value of a declared type."""
    word = random.choice(["a", "b", "calm", "a long text that may be stored once " * 3])
    match kind:
        case _ if kind is Said:
            return Said(random.choice(["user", "model"]), word)
        case _ if kind is Holder:
            return Holder(word, [anything(random) for _ in range(random.randrange(3))])
        case _ if kind is Turn:
            return Turn(word, random.choice(list(Mood)), [anything(random)], {"k": anything(random)})
        case _ if kind is Struct:
            return Struct(
                word, [word] * random.randrange(3), made(random, Turn) if random.random() < 0.3 else None
            )
        case _ if kind is Model or kind is Soft:
            return kind(name=word) if random.random() < 0.5 else kind(name=word, count=random.randrange(3))
        case _ if kind is Still:
            return Still(name=word, words=(word,) * random.randrange(3))
        case _ if kind is dict:
            return {"role": word, "content": anything(random)}
        case _ if kind is int:
            return random.randrange(5)
        case _ if kind is str:
            return word
        case _:
            return anything(random)


ELEMENTS: dict[str, Any] = {
    "said": Said,
    "holders": Holder,
    "models": Model,
    "still": Still,
    "soft": Soft,
    "turns": Turn,
    "structs": Struct,
    "messages": dict,
    "tags": str,
    "words": str,
}
"""What a list holds, by the name of its field; anything elsewhere."""


def spots(value: Any, name: str, kind: Any) -> Iterator[tuple[Any, str, Any]]:
    """Every list, dict, set and record that a step could change, in a fixed order."""
    if isinstance(value, list):
        inside = ELEMENTS.get(name, kind)
        yield value, name, inside
        for item in value:
            yield from spots(item, "", None)
    elif isinstance(value, dict):
        yield value, name, kind
        for key, item in value.items():
            yield from spots(item, key if name in ("", "root") and isinstance(key, str) else "", _below(name))
    elif isinstance(value, set):
        yield value, name, int
    elif isinstance(value, tuple):
        for item in value:
            yield from spots(item, "", None)
    else:
        items = record_items(value)
        if items is not None:
            yield value, name, "record"
            for key, item in items:
                yield from spots(item, key, _below(key))


def _below(name: str) -> Any:
    return {"odd": int, "tags": str, "words": str}.get(name)


def change(state: Any, random: Random, by_kind: Any) -> Any:
    """One random change; the state, or another one in its place."""
    places = list(spots(state, "root", None))
    if not places:
        return state
    place, name, kind = random.choice(places[:12] if random.random() < 0.5 else places)
    if place is state and isinstance(state, list):
        kind = by_kind
    if isinstance(place, list):
        change_list(place, name, kind, random, places)
    elif isinstance(place, dict):
        change_dict(place, name, random, places, by_kind)
    elif isinstance(place, set):
        place.add(random.randrange(8))
    else:
        change_record(place, random)
    if random.random() < 0.03:
        return copy.deepcopy(state)
    return state


def change_list(place: list[Any], name: str, kind: Any, random: Random, places: list[Any]) -> None:
    """Change a list in one of many ways."""
    at = random.randrange(len(place) + 1)
    alike = [other for other, _, k in places if isinstance(other, list) and k is kind and other]
    match random.randrange(14):
        case 0 | 1 | 2 | 3:
            place.extend(made(random, kind) for _ in range(random.randrange(1, 4)))
        case 4 if alike and kind is not None:
            place.append(random.choice(random.choice(alike)))  # an alias
        case 5:
            place.insert(at, made(random, kind))
        case 6 if place:
            del place[at - 1]
        case 7 if place:
            place[at - 1] = copy.deepcopy(place[at - 1])  # equal, another object
        case 8 if len(place) > 1:
            place[0], place[-1] = place[-1], place[0]
        case 9 if place and kind is None:
            place[at - 1] = twisted(place[at - 1])
        case 10 if place:
            place[at - 1] = made(random, kind)
        case 11:
            del place[: random.randrange(3)]
        case 12 if place and kind is not None:
            place[at - 1] = place[0]  # an alias that may equal what was there
        case _:
            place.reverse()


def twisted(value: Any) -> Any:
    """Another value, equal where there is one."""
    if type(value) is int or type(value) is bool:
        return bool(value) if type(value) is int else int(value)
    if value == "calm":
        return Mood.CALM
    return tuple(value) if type(value) is list else [value]


def change_dict(place: dict[Any, Any], name: str, random: Random, places: list[Any], by_kind: Any) -> None:
    """Change a dict; a declared one only as its type allows."""
    if name == "odd":
        place[random.randrange(3)] = [random.randrange(3)]
        return
    if name == "by":
        place[random.choice("abc")] = [made(random, by_kind) for _ in range(random.randrange(6))]
        return
    if set(place) >= {"messages", "by"}:
        place["note"] = anything(random)
        return
    match random.randrange(7):
        case 0 | 1:
            place[random.choice("abcdef")] = anything(random)
        case 2:
            place[random.choice("abcdef")] = [anything(random) for _ in range(random.randrange(9))]
        case 3 if place and "role" not in place:
            key = random.choice(list(place))
            place[random.choice("xyz")] = place.pop(key)  # the same value under another name
        case 4 if place and "role" not in place:
            key = random.choice(list(place))
            place[key] = place.pop(key)  # moved to the end
        case 5 if place and "role" not in place:
            del place[random.choice(list(place))]
        case _:
            key = random.choice(["p", "q"])
            place[key] = {"n": random.randrange(2)}


def change_record(place: Any, random: Random) -> None:
    """Set a field of a mutable record."""
    match place:
        case Turn():
            match random.randrange(4):
                case 0:
                    place.role = random.choice("ab")
                case 1:
                    place.mood = random.choice(list(Mood))
                case 2:
                    place.parts = list(place.parts)
                case _:
                    place.hidden = 1  # type: ignore[attr-defined]
        case Model() | Soft():
            place.count = random.choice([None, 1])
            if isinstance(place, Model):
                place._hidden += 1
        case Struct():
            place.turn = random.choice([None, place.turn])
        case Desk():
            change_desk(place, random)
        case Pydantic():
            place.said = [*place.said, Said("user", "x")]
        case Packed():
            place.turns = place.turns[-8:]
        case _:
            return


def change_desk(place: Desk, random: Random) -> None:
    """Set a field of the root."""
    match random.randrange(6):
        case 0:
            place.current = random.choice([*place.inner.turns, None])
        case 1:
            place.said = list(place.said)
        case 2:
            place.inner = Inner(place.inner.turns, place.inner.structs[:2], dict(place.inner.odd))
        case 3:
            place.seen = {random.randrange(4)}
        case 4:
            place.notes["log"] = place.log
        case _:
            place.mood = random.choice(list(Mood))


# ---------------------------------------------------------------------------------------- what must hold


def typed(value: Any) -> Any:
    """A stand-in that tells values apart by content and by every type, declared ones included."""
    kind = type(value)
    if kind is dict:
        return (kind, tuple((typed(key), typed(item)) for key, item in value.items()))
    if kind in (list, tuple):
        return (kind, tuple(map(typed, value)))
    if kind in (set, frozenset):
        return (kind, frozenset(map(typed, value)))
    items = record_items(value)
    if items is not None:
        names = {key for key, _ in items}
        hidden = {key: item for key, item in getattr(value, "__dict__", {}).items() if key not in names}
        return (
            kind,
            repr(hidden),
            repr(getattr(value, "__pydantic_private__", None)),
            tuple((key, typed(item)) for key, item in items),
        )
    return (kind, exact(plain(value)))


def mutable_ids(value: Any) -> list[int]:
    """The identity of each mutable object, each time it is reached."""
    out: list[int] = []
    if isinstance(value, (list, tuple)):
        inside: list[Any] = list(value)
    elif isinstance(value, dict):
        inside = list(value.values())
    elif isinstance(value, set):
        inside = []
    else:
        items = record_items(value)
        if items is None:
            return []
        inside = [item for _, item in items]
    if not isinstance(value, (tuple, Said, Still, Holder)):
        out.append(id(value))
    for item in inside:
        out += mutable_ids(item)
    return out


def check_committed(state: LiveState[Any], shape: Shape[Any], committed: Any) -> None:
    """Law 18, types included, and no two places share a mutable object."""
    assert typed(state.live) == typed(shape.restore(committed))
    assert same(plain(state.live), committed)
    ids = mutable_ids(state.live)
    assert len(ids) == len(set(ids))
    assert not set(ids) & set(mutable_ids(committed))
    for known in state._watches.values():
        fresh = watch.Watch(known.elements, known.plain, known.path)
        assert known.suspects() == fresh.suspects()


def check_arguments(state: LiveState[Any], committed: Any, values: dict[int, bytes], tp: Any) -> None:
    """Each list of the live state can be written as a reference, which gives it back."""
    for _, found in list(lists_in(state.live, places_in(tp))):
        known = state.argument(found, values)
        if known is None:
            continue
        reference, digest = known
        assert digest == argument_digest(found) == argument_digest(plain(found))
        stored = committed
        for key in reference.path:
            stored = stored[key]
        extra = [
            decode(values[item.seq][item.start : item.start + item.length] if isinstance(item, Ref) else item)
            for item in reference.extra
        ]
        now = plain(found)
        assert same(stored[: reference.count] + extra, now)
        if len(now) > reference.count < len(stored):
            assert not same(stored[reference.count], now[reference.count])


def patch_of(state: LiveState[Any], shape: Shape[Any], committed: Any, values: dict[int, bytes]) -> Any:
    """The patch, checked against the plain way to make it; `None` if the type refuses what the step made."""
    now = plain(state.live)
    try:
        shape.restore(now, where="$.state")
    except ShapeMismatch as refused:
        with pytest.raises(ShapeMismatch, match=re.escape(refused.what)):
            state.patch(values)
        return None
    patch = state.patch(values)
    assert patch == Scribe(values).ops(diff(committed, now))
    return patch


KINDS = [
    (dict, None),
    (list[Any], None),
    (list[Turn], Turn),
    (Open, dict),
    (Desk, None),
    (Pydantic, None),
    (Packed, Said),
    (Counted, None),
]


@pytest.mark.parametrize(("tp", "by_kind"), KINDS, ids=[str(getattr(tp, "__name__", tp)) for tp, _ in KINDS])
@seed(SEED)
@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2**32), min_size=1, max_size=8))
def test_live_is_what_was_committed_after_every_step(tp: Any, by_kind: Any, seeds: list[int]) -> None:
    shape: Shape[Any] = Shape.of(tp)
    committed: Any = copy.deepcopy(EMPTY[tp])
    first = committed
    state = LiveState(shape, committed)
    patches = []
    for number, start in enumerate(seeds):
        resumed = LiveState(shape, committed)
        values: dict[int, bytes] = {}
        written = []
        for one in (state, resumed):
            random = Random(start)
            for turn in range(random.randrange(1, 7)):
                one.live = change(one.live, random, by_kind)
                if turn == 1:
                    check_arguments(one, committed, values, tp)
            if not values:
                values = {
                    number: encode([plain(one.live)]),
                    number + 1: encode("a long text that may be stored once " * 3),
                }
            written.append(patch_of(one, shape, committed, values))
        if written[0] is None:
            assert written[1] is None
            state.reset()
            check_committed(state, shape, committed)
            continue
        assert written[0] == written[1]
        before = exact(committed)
        now = plain(state.live)
        folded = apply(committed, written[0], values, decode)
        assert exact(committed) == before
        assert same(folded, now)
        state.commit(folded, written[0])
        committed = folded
        patches.append((written[0], values))
        check_committed(state, shape, committed)
        assert state.patch({}) == ()
        if start % 5 == 0:
            change(state.live, Random(start), by_kind)
            state.reset()
            check_committed(state, shape, committed)
    again = first
    for patch, values in patches:
        again = apply(again, patch, values, decode)
    assert same(again, committed)


def test_places_know_what_is_plain() -> None:
    assert places_in(Any) is ANYTHING
