"""Values that are rare and right: every look tells of them, and a run that holds them goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.codec.sealed import Seen
from tests.unit.cli.conftest import Command

ENORMOUS = 10**5000
"""More digits than Python writes without being asked."""

APP = """
from perdure import Agent

ENORMOUS = 10**5000
desk = Agent("odd", state=dict, goal=str, start=lambda goal: {"n": 0, "inner": {}})


@desk.tool(effect="irreversible")
async def act(value: object) -> object:
    return value


@desk.step
async def step(run):
    run.state["n"] += 1
    if run.state["n"] == 1:
        run.state["inner"]["k\\ud800"] = [1] * 70
        run.state["came"] = await act(ENORMOUS)
    elif run.state["n"] == 2:
        run.state["inner"]["k\\ud800"].append(2)
        run.state["\\udcff"] = {"\\udcfe": 1}
        await act(run.state["inner"]["k\\ud800"])
    elif run.state["n"] == 3:
        run.state["\\udcff"]["\\udcfe"] = 2
        del run.state["inner"]["k\\ud800"]
    elif run.goal == "ask":
        run.finish(await run.ask("Which?", choices=[ENORMOUS, 2]))
    else:
        run.finish(ENORMOUS)
"""


@pytest.fixture(autouse=True)
def without_personal_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not come across any: other tests may have."""
    monkeypatch.setattr(Seen, "personal", False)


@pytest.fixture
def odd(perdure: Command, place: Path) -> Path:
    """./app.py and ./perdure.db with the run `r`, which has ended, and `q`, which asks."""
    (place / "app.py").write_text(APP)
    assert perdure("run", "app.py", "x", "--id", "r").code == 0
    assert perdure("run", "app.py", "ask", "--id", "q").code == 6
    return place


LOOKS = [
    ("show", "r"),
    ("show", "r", "--events"),
    ("state", "r"),
    ("state", "r", "came", "--history"),
    ("diff", "r@1", "r"),
    ("audit", "r"),
    ("why", "q"),
    ("fork", "r@1", "--dry-run"),
    ("simulate", "r", "--app", "app.py"),
    ("replay", "r", "--app", "app.py"),
    ("verify",),
]


@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_every_look_tells_of_them(perdure: Command, odd: Path, look: tuple[str, ...]) -> None:
    for form in ((), ("--json",)):
        answer = perdure(*look, *form)
        assert answer.code == 0, answer.out + answer.err


def test_an_enormous_integer_is_exact_in_a_document(perdure: Command, odd: Path) -> None:
    value = perdure("state", "r", "came", "--json").document["value"]
    assert int(value["$int"], 16) == ENORMOUS
    assert perdure("state", "r@1", "n", "--json").document["value"] == 0


def test_keys_that_are_no_proper_text_are_kept_exactly(perdure: Command, odd: Path) -> None:
    state = perdure("state", "r", "--json").document["value"]
    pairs = {str(key): value for key, value in state["$pairs"]}
    assert pairs["{'$text': '\\\\udcff'}"] == {"$pairs": [[{"$text": "\\udcfe"}, 2]]}
    assert pairs["inner"] == {}
    assert perdure("state", "q").code == 0


def test_a_fork_that_would_repeat_an_act_with_them_is_held_and_goes_on(perdure: Command, odd: Path) -> None:
    assert perdure("fork", "r@1", "--id", "f", "--set", "k\udcff=1").code == 0
    assert perdure("run", "app.py", "--id", "f").code == 4
    assert "<integer of 16610 bits>" in perdure("why", "f").out
    assert perdure("effect", "f", "--reuse").code == 0
    assert perdure("run", "app.py", "--id", "f").code == 4, "the second act"
    assert perdure("effect", "f", "--act").code == 0
    assert perdure("run", "app.py", "--id", "f").code == 0


def test_an_answer_that_is_none_of_them_is_refused_in_words(perdure: Command, odd: Path) -> None:
    refused = perdure("answer", "q", "3")
    assert (refused.code, "<integer of 16610 bits>, 2, and is '3'" in refused.err) == (5, True), refused.err


@pytest.mark.parametrize("typed", ["[" * 3000 + "]" * 3000, "9" * 5000])
def test_json_that_python_does_not_read_is_no_text(perdure: Command, odd: Path, typed: str) -> None:
    refused = perdure("fork", "r@1", "--set", f"x={typed}")
    assert (refused.code, "cannot be read" in refused.err) == (2, True)


def test_an_agent_that_cannot_be_driven_starts_no_run(perdure: Command, place: Path) -> None:
    (place / "bare.py").write_text(
        "from perdure import Agent\nbare = Agent('bare', state=dict, start=dict)\n"
    )
    assert "no step and 0 models" in perdure("run", "bare.py", "x", "--id", "b").err
    assert not (place / "perdure.db").exists()
