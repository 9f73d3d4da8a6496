"""`perdure simulate`: what other code would do in the place of a run, for people and programs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command
from tests.unit.cli.test_replay import CODE, OTHER, SAME, files

FAKES = """
def pay(cents):
    return f"would pay {cents}"


both = {"pay": lambda cents: "from the dict"}
number = 3
"""


@pytest.fixture
def lived(perdure: Command, place: Path) -> Path:
    """./same.py and ./other.py, whose payments differ, a run of the one that has ended, and ./fakes.py."""
    (place / SAME).write_text(CODE.replace("CENTS", "5"))
    (place / OTHER).write_text(CODE.replace("CENTS", "(60 if run.state['paid'] else 5)"))
    (place / "fakes.py").write_text(FAKES)
    asyncio.run(_live(place))
    return place


async def _live(place: Path) -> None:
    from perdure import Runtime
    from perdure.cli.app import load

    desk = load(str(place / SAME))
    async with Runtime(str(place / "perdure.db"), [desk]) as runtime:
        await runtime.run(desk, "run-07", "go", check=False)


def test_the_same_code_comes_to_the_same_end(perdure: Command, lived: Path) -> None:
    before = files(lived)
    found = perdure("simulate", "run-07", "--app", SAME)
    assert found.code == 0, found.err
    assert "run-07 simulated from its start: 3 steps, 3 same; nothing was written" in found.out
    assert 'succeeded with "go" → succeeded with "go"' in found.out
    assert "in the step" not in found.out
    assert files(lived) == before


def test_it_stops_where_nobody_can_say_what_a_call_comes_to(perdure: Command, lived: Path) -> None:
    found = perdure("simulate", "run-07", "--app", OTHER)
    assert found.code == 6, found.err
    text = " ".join(found.out.split())
    for words in (
        "1 step, 1 same, 2 missing",
        "stopped in step 2 at 2:0",
        "asks for pay(cents=61)",
        f"code {lived / OTHER}:17",
        "with a stand-in for tool pay (--stand-in FILE:NAME)",
    ):
        assert words in text, (words, found.out)


@pytest.mark.parametrize(("name", "value"), [("pay", "would pay 61"), ("both", "from the dict")])
def test_a_stand_in_from_a_file(perdure: Command, lived: Path, name: str, value: str) -> None:
    found = perdure("simulate", "run-07", "--app", OTHER, "--stand-in", f"fakes.py:{name}", "--json")
    assert found.code == 0, found.err
    told = found.document
    assert told["counts"] == {"same": 1, "changed": 2}
    assert [call["sameness"] for call in told["calls"]] == ["same", "changed", "changed"]
    first = told["calls"][1]
    assert (first["args"], first["then_args"]) == ({"cents": 61}, {"cents": 6})
    assert (first["value"], first["then_value"], first["source"]) == (value, "paid 6", "stand-in")
    assert told["changes"][0] == {"place": "paid[1]", "was": "paid 6", "now": value}
    assert (told["ended"], told["exit"]) == ("succeeded", 0)
    drawn = perdure("simulate", "run-07", "--app", OTHER, "--stand-in", f"fakes.py:{name}")
    assert f'pay(cents=61) → "{value}" (stand-in)' in " ".join(drawn.out.split())


def test_from_a_point_and_with_another_goal(perdure: Command, lived: Path) -> None:
    found = perdure("simulate", "run-07@4", "--app", SAME, "--json").document
    assert (found["at"], found["steps"], found["counts"]) == (4, 2, {"same": 2})
    found = perdure("simulate", "run-07", "--app", SAME, "--goal", "elsewhere", "--json").document
    assert (found["result"], found["then_result"], found["same"]) == ("elsewhere", "go", False)


def test_an_exported_run(perdure: Command, lived: Path) -> None:
    perdure("export", "run-07", "kept.perdure")
    assert perdure("simulate", "kept.perdure", "--app", SAME, "--store", "nowhere.db").code == 0


def test_a_step_that_raises(perdure: Command, lived: Path) -> None:
    (lived / "broken.py").write_text(CODE.replace("CENTS", "1 // 0"))
    found = perdure("simulate", "run-07", "--app", "broken.py")
    assert found.code == 1
    assert "ZeroDivisionError" in found.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run-07", "--stand-in", "fakes.py:number"), 2, "is no function and no dict of functions"),
        (("run-07", "--stand-in", "fakes.py:nothing"), 3, "nothing is not in fakes.py"),
        (("run-07", "--stand-in", "fakes.py"), 3, "names nothing in a file"),
        (("run-07@99",), 3, "no event 99"),
        (("run-08",), 3, "no run's id begins with run-08"),
    ],
)
def test_what_cannot_be_done(
    perdure: Command, lived: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    found = perdure("simulate", *arguments, "--app", SAME)
    assert found.code == code, found.err
    assert words in " ".join((found.out + found.err).split())


STOPPED = """\
run-07 simulated from its start: 1 step, 1 same, 2 missing; nothing was written

CALL           RECORDED                 NOW
1:0   same     pay(cents=5) → "paid 5"  =
2:0   missing  pay(cents=6) → "paid 6"  -
3:0   missing  pay(cents=7) → "paid 7"  -

the state at its end differs in 2 places
  - paid[1]  "paid 6"
  - paid[2]  "paid 7"

  ended  succeeded with "go" → not ended
  spent  3 calls → 1 call

stopped in step 2 at 2:0
  asks for  pay(cents=61)
  why       the run made no such call of pay: its arguments differ, or it made it less often
  code      PLACE/other.py:17
  goes on   with a stand-in for tool pay (--stand-in FILE:NAME)
"""


def test_what_is_drawn_to_the_letter(perdure: Command, lived: Path) -> None:
    found = perdure("simulate", "run-07", "--app", OTHER)
    assert found.out.replace(str(lived), "PLACE") == STOPPED
