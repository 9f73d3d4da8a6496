"""What a person types in the place of personal data: it is sealed like what a program gives, or not taken."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure.codec.frame import body_of
from perdure.codec.sealed import Sealed, Seen
from perdure.journal import read_all
from perdure.state.patch import same
from perdure.store.protocol import Query
from perdure.store.sqlite import SQLiteStore
from tests.unit.cli.conftest import Command

TYPED = "Bob Builder"

APP = """
from __future__ import annotations

from dataclasses import dataclass, field

from perdure import Agent, Personal


@dataclass
class Who:
    name: Personal[str]
    age: int


@dataclass
class Case:
    name: Personal[str]
    nick: Personal[str] | None = None
    others: list[Personal[str]] = field(default_factory=list)
    letters: int = 0


desk = Agent("desk", state=Case, goal=Personal[str], result=Personal[str], start=Case)


@desk.tool(effect="irreversible")
async def write(to: Personal[str]) -> Personal[str]:
    if to.reveal().startswith("Lost"):
        raise RuntimeError("no reply")
    return Personal("Dear " + to.reveal())


@desk.step
async def step(run):
    if not run.state.letters:
        run.state.others = [await write(run.state.name)]
        run.state.letters = 1
    elif run.state.letters == 1:
        run.state.letters = 2
        if run.state.name.reveal() == "Asked":
            heard = await run.ask("Who?", list[Who])
            run.state.others = [one.name for one in heard]
    else:
        run.finish(Personal(", ".join(one.reveal() for one in run.state.others)))
"""


@pytest.fixture
def letters(perdure: Command, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """./app.py and ./perdure.db with the run `p`, which has written a letter, and `lost`, which may have."""
    (place / "app.py").write_text(APP)
    assert perdure("run", "app.py", "Ada Lovelace", "--id", "p").code == 0
    assert perdure("run", "app.py", "Lost Lucy", "--id", "lost").code == 4
    assert perdure("run", "app.py", "Asked", "--id", "asked").code == 6
    monkeypatch.setattr(Seen, "personal", False)  # as in a process that has not come across its code
    del sys.modules["app"]
    return place


async def _kept() -> bytes:
    """What lies in events and inboxes, unpacked."""
    found = []
    store = SQLiteStore("perdure.db")
    await store.open()
    for row in await store.list(Query()):
        found += [bytes(body_of(item.data)) for item in await read_all(store, row.run_id)]
        found += [item.data for item in await store.inbox(row.run_id)]
    await store.close()
    return b"\0".join(found)


def nowhere(text: str = TYPED) -> bool:
    """Whether the text is in no file of the store, and in nothing that is kept there."""
    files = b"".join(file.read_bytes() for file in Path().glob("perdure.db*") if file.is_file())
    return text.encode() not in files + asyncio.run(_kept())


@dataclass
class Way:
    """One way of giving a run something, and where it is seen then."""

    argv: tuple[str, ...]
    place: str = "name"


WAYS = {
    "state": Way(("p@1", "--set", f'name="{TYPED}"')),
    "state, by its type": Way(("p@1", "--set", f'name="{TYPED}"', "--app", "app.py")),
    "state, where nothing was": Way(("p@1", "--set", f'nick="{TYPED}"', "--app", "app.py"), "nick"),
    "one more in a list": Way(("p@4", "--set", f'others[1]="{TYPED}"'), "others[1]"),
    "goal": Way(("p@1", "--goal", TYPED, "--app", "app.py")),
}


@pytest.mark.parametrize("name", WAYS)
def test_what_a_fork_is_given_is_sealed(perdure: Command, letters: Path, name: str) -> None:
    way = WAYS[name]
    made = perdure("fork", *way.argv, "--id", "f", "--effects", "redo")
    assert (made.code, TYPED in made.out) == (0, False), made.err
    assert nowhere()
    assert TYPED in perdure("state", "f", way.place, "--reveal").out
    assert perdure("run", "app.py", "--id", "f").code == 0
    assert nowhere()


def test_the_result_of_a_call_is_sealed(perdure: Command, letters: Path) -> None:
    assert perdure("fork", "p@3", "--result", f'1:0="{TYPED}"', "--id", "f").code == 0
    assert nowhere()
    assert perdure("run", "app.py", "--id", "f").code == 0
    assert TYPED in perdure("show", "f", "--reveal").out


def test_what_nothing_tells_of_is_not_taken_without_the_code(perdure: Command, letters: Path) -> None:
    refused = perdure("fork", "p@1", "--set", f'nick="{TYPED}"', "--id", "f")
    assert (refused.code, "U720" in refused.err, "--app FILE:AGENT" in refused.err) == (5, True, True)
    assert perdure("fork", "p@1", "--set", "letters=2", "--id", "g").code == 0, "a number in a number's place"
    assert nowhere()


@pytest.mark.parametrize("app", [(), ("--app", "app.py")])
def test_what_a_call_came_to_is_sealed(perdure: Command, letters: Path, app: tuple[str, ...]) -> None:
    assert perdure("resolve", "lost", "--done", TYPED, *app).code == 0
    assert nowhere()
    assert perdure("run", "app.py", "--id", "lost").code == 0
    assert nowhere()
    assert perdure("show", "lost", "--reveal").out.splitlines()[-1] == f"result  {TYPED}"


def test_what_does_not_fit_is_not_taken_and_can_be_given_again(perdure: Command, letters: Path) -> None:
    assert perdure("resolve", "lost", "--done", "7").code == 0
    held = perdure("run", "app.py", "--id", "lost")
    assert (held.code, "M301" in held.out) == (4, True)
    assert perdure("resolve", "lost", "--done", "7", "--app", "app.py").code == 5
    assert perdure("resolve", "lost", "--done", TYPED).code == 0
    assert perdure("run", "app.py", "--id", "lost").code == 0


def test_a_result_in_the_place_of_the_origins_is_sealed(perdure: Command, letters: Path) -> None:
    assert perdure("fork", "p@1", "--id", "f").code == 0
    held = perdure("run", "app.py", "--id", "f")
    assert (held.code, "Sealed" in held.out, ": [personal]" in held.out) == (4, False, True)
    assert perdure("effect", "f", "--simulate", TYPED).code == 0
    assert nowhere()
    assert perdure("run", "app.py", "--id", "f").code == 0
    assert nowhere()
    assert perdure("show", "f", "--reveal").out.splitlines()[-1] == f"result  {TYPED}"


def test_personal_data_deep_in_an_answer_is_sealed(perdure: Command, letters: Path) -> None:
    assert perdure("answer", "asked", f'[{{"name": "{TYPED}", "age": 7}}]').code == 0
    assert nowhere()
    assert perdure("run", "app.py", "--id", "asked").code == 0
    assert nowhere()
    assert perdure("show", "asked", "--reveal").out.splitlines()[-1] == f"result  {TYPED}"


def test_personal_values_are_told_alike_and_compared_by_what_they_hold() -> None:
    one, other = Sealed(b"a" * 40), Sealed(b"b" * 40)
    assert repr({"name": one}) == repr({"name": other}) == "{'name': [personal]}"
    assert same([one], [Sealed(b"a" * 40)])
    assert not same([one], [other])
    assert not same({one}, {other})
