"""The line of descent: a module imports only from rooms to its left, and no two modules import each other.

    errors, clock <- cipher <- state <- codec <- store <- journal <- recovery <- agent <- runtime
      <- worker | timeline <- desk <- host <- observe | adapters | web | demo <- cli

Every import counts: at the top, inside a function, below TYPE_CHECKING, relative, and a written-out
`import_module("perdure...")`. Rooms that share a place do not import each other. Walls inside the line:
`store` keeps bytes, so it imports neither `state` nor `codec`; `recovery` decides and never acts, so it
imports neither `store` nor `journal`. (That the pure rooms read no clock is test_tidy's business.)
`testing` and `lab` stand beside the line: nobody imports them, except that a command of the cli may load
them by name when it is called. The front door (`perdure` itself) may open on everything below the faces,
and only the faces, `testing` and `lab` may come in through it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pytest

from tests.house.source import Source, python

LINE = (
    ("errors", "clock"),
    ("cipher",),
    ("state",),
    ("codec",),
    ("store",),
    ("journal",),
    ("recovery",),
    ("agent",),
    ("runtime",),
    ("worker", "timeline"),
    ("desk",),
    ("host",),
    ("observe", "adapters", "web", "demo"),
    ("cli",),
)
FRONT = "the front door"
ROOMS = tuple(room for place in LINE for room in place)
BESIDE = ("testing", "lab")
FACES = ("adapters", "web", "demo", "cli")
PLACE = {room: number for number, place in enumerate(LINE) for room in place}
WALLS = {
    ("store", "state"): "store keeps bytes and knows no meanings",
    ("store", "codec"): "store keeps bytes and knows no meanings",
    ("recovery", "store"): "recovery decides and never acts",
    ("recovery", "journal"): "recovery decides and never acts",
}


@dataclass(frozen=True)
class Arrow:
    """`source` imports `target` (dotted names) at `path:line`; `by_name` if through import_module."""

    source: str
    target: str
    path: str
    line: int
    by_name: bool = False


def room_of(module: str) -> str:
    """The room that a dotted module name belongs to."""
    parts = module.split(".")
    if len(parts) == 1:
        return FRONT
    return "cli" if parts[1] == "__main__" else parts[1]


def _named(node: ast.Call) -> str | None:
    """The module that `import_module("...")` or `__import__("...")` loads, when it is written out."""
    callee = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if callee in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    return None


def _targets(node: ast.AST, source: Source, known: frozenset[str]) -> Iterator[str]:
    """The dotted names that one statement imports; `from package import name` may name a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        start = node.module or ""
        if node.level:
            here = source.module.split(".")
            up = node.level - source.path.endswith("/__init__.py")
            start = ".".join([*here[: len(here) - up], *([start] if start else [])])
        for alias in node.names:
            inner = f"{start}.{alias.name}"
            yield inner if inner in known else start


@cache
def arrows(sources: tuple[Source, ...]) -> list[Arrow]:
    """Every import of ours in the given files, in order."""
    known = frozenset(
        [*(source.module for source in sources), *(f"perdure.{room}" for room in (*ROOMS, *BESIDE))]
    )
    found: list[Arrow] = []
    for source in sources:
        for node in ast.walk(source.tree):
            line = getattr(node, "lineno", 0)
            found += (
                Arrow(source.module, target, source.path, line) for target in _targets(node, source, known)
            )
            named = _named(node) if isinstance(node, ast.Call) else None
            if named is not None:
                found.append(Arrow(source.module, named, source.path, line, by_name=True))
    return [arrow for arrow in found if arrow.target.split(".")[0] == "perdure"]


def _refusal(arrow: Arrow) -> str | None:
    """Why an arrow is not allowed, or None."""
    here, there = room_of(arrow.source), room_of(arrow.target)
    if there in BESIDE and here != there:
        if (here == "cli" and arrow.by_name) or (here == "lab" and there == "testing"):
            return None
        return f"nothing imports {there}"
    if here == there:
        return None
    if (here, there) in WALLS:
        return WALLS[here, there]
    if here in BESIDE:
        return f"{here} imports no face" if there in FACES else None
    if here == FRONT:
        return "the front door opens on no face" if there in FACES else None
    if there == FRONT:
        return None if here in FACES else "only faces come in through the front door; import the room itself"
    if here not in PLACE or there not in PLACE:
        return None  # `strangers` names the room that has no place
    if PLACE[here] == PLACE[there]:
        return "rooms that share a place do not import each other"
    return None if PLACE[there] < PLACE[here] else f"{there} lies to the right of {here}"


def offences(sources: Iterable[Source]) -> list[str]:
    """Every forbidden arrow, with its place and the rule."""
    judged = ((arrow, _refusal(arrow)) for arrow in arrows(tuple(sources)))
    return [f"{a.path}:{a.line}: {a.source} -> {a.target}: {why}" for a, why in judged if why]


def strangers(sources: Iterable[Source]) -> list[str]:
    """Files in no known room."""
    known = {*ROOMS, *BESIDE, FRONT}
    placed = ((source.path, room_of(source.module)) for source in sources)
    return [f"{path}: {room} has no place in the line" for path, room in placed if room not in known]


def cycles(sources: Sequence[Source]) -> list[str]:
    """Each ring of modules, as the arrows that close it: a module that can be reached from itself."""
    graph: dict[str, dict[str, Arrow]] = {}
    for arrow in arrows(tuple(sources)):
        if arrow.source != arrow.target and not arrow.by_name:
            graph.setdefault(arrow.source, {}).setdefault(arrow.target, arrow)
    found: dict[frozenset[str], str] = {}
    for start in sorted(graph):
        ring = _way_back(graph, start)
        if ring:
            told = "; ".join(f"{a.path}:{a.line}: {a.source} -> {a.target}" for a in ring)
            found.setdefault(frozenset(a.source for a in ring), told)
    return list(found.values())


def _way_back(graph: dict[str, dict[str, Arrow]], start: str) -> list[Arrow]:
    """The shortest way from a module to itself, or nothing."""
    came: dict[str, Arrow] = {}
    queue = [start]
    for module in queue:
        for target, arrow in graph.get(module, {}).items():
            if target == start:
                way = [arrow]
                while way[-1].source != start:
                    way.append(came[way[-1].source])
                return way[::-1]
            if target not in came:
                came[target] = arrow
                queue.append(target)
    return []


def _told(title: str, complaints: list[str]) -> None:
    if complaints:
        pytest.fail("\n".join([title, *complaints]), pytrace=False)


@pytest.mark.parametrize("room", [FRONT, *ROOMS, *BESIDE])
def test_a_room_imports_only_from_rooms_to_its_left(room: str) -> None:
    """Laws of the line, one room at a time."""
    sources = python("src")
    mine = {source.path for source in sources if room_of(source.module) == room}
    if not mine:
        pytest.skip(f"{room} is not there yet")
    bad = [line for line in offences(sources) if line.split(":")[0] in mine]
    _told("arrows against the line:", bad)


def test_every_file_is_in_a_room() -> None:
    """A file that has no room is a missing noun."""
    _told("no room for:", strangers(python("src")))


def test_no_two_modules_import_each_other() -> None:
    """No ring of imports, inside a room or across rooms."""
    _told("import rings:", cycles(python("src")))


def _house(texts: dict[str, str]) -> list[Source]:
    """A made-up package: "store/sqlite" is src/perdure/store/sqlite.py."""
    return [Source(f"src/perdure/{name}.py", text) for name, text in texts.items()]


TYPE_ONLY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from perdure.runtime import Run"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("state/fold", "from perdure.journal import Journal", "perdure.state.fold -> perdure.journal"),
        ("state/fold", "from ..journal import Journal", "perdure.state.fold -> perdure.journal"),
        ("state/__init__", "from ..journal import Journal", "perdure.state -> perdure.journal"),
        ("journal", "from .runtime.drive import drive", "perdure.journal -> perdure.runtime.drive"),
        ("codec", "def f():\n    import perdure.store.memory", "perdure.codec -> perdure.store.memory"),
        ("agent/tool", TYPE_ONLY, "perdure.agent.tool -> perdure.runtime"),
        ("store/sqlite", "from perdure import codec", "store keeps bytes"),
        ("store/sqlite", "from perdure.state.events import Body", "store keeps bytes"),
        ("recovery/verdicts", "import perdure.journal", "recovery decides"),
        ("errors", "from perdure.clock import now", "do not import each other"),
        ("worker", "from perdure.timeline.view import view", "do not import each other"),
        ("runtime/drive", "from perdure.testing.crash import boundary", "nothing imports testing"),
        ("cli/main", "from perdure.lab import plan", "nothing imports lab"),
        ("runtime/drive", "import_module('perdure.lab')", "nothing imports lab"),
        ("testing/crash", "from perdure.cli import main", "imports no face"),
        ("runtime/drive", "from perdure import Agent", "front door"),
        ("__init__", "from .web.app import app", "opens on no face"),
    ],
)
def test_control_a_wrong_arrow_is_seen(name: str, text: str, said: str) -> None:
    """The checker complains about each kind of offence, and says where."""
    bad = offences(_house({name: text}))
    assert len(bad) == 1
    assert said in bad[0]
    line = text.count("\n") + 1
    assert bad[0].startswith(f"src/perdure/{name}.py:{line}: ")


def test_control_right_arrows_pass() -> None:
    """The checker does not complain about what is allowed."""
    house = {
        "journal": "from perdure.store.protocol import Store\nfrom .state import events",
        "state/events": "from perdure.errors import Damaged",
        "cli/main": "import_module('perdure.testing.crash')\nfrom perdure.web import app",
        "adapters/langgraph": "from perdure import Agent",
        "lab/experiment": "from perdure.testing.crash import boundary",
        "__init__": "from .agent.tool import tool as tool",
    }
    assert offences(_house(house)) == []


def test_control_a_ring_and_a_stranger_are_seen() -> None:
    """A ring of three, also through a function; a ring through a room's own door; a stray file."""
    three = {
        "state/a": "from . import b",
        "state/b": "def f():\n    from perdure.state.c import C",
        "state/c": "import perdure.state.a",
    }
    (ring,) = cycles(_house(three))
    assert ring.count("->") == 3
    assert "src/perdure/state/b.py:2: perdure.state.b -> perdure.state.c" in ring
    assert cycles(_house({"state/__init__": "from .a import A", "state/a": "from perdure.state import A"}))
    assert (
        cycles(_house({"state/__init__": "from .a import A", "state/a": "from .b import B", "state/b": ""}))
        == []
    )
    assert strangers(_house({"engine": ""})) == ["src/perdure/engine.py: engine has no place in the line"]
