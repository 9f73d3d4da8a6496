"""The program as a whole: help, wrong command lines, errors for people and programs, a reader that leaves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure import errors
from perdure.cli import exits
from perdure.cli.program import SECTIONS
from tests.unit.cli.conftest import Command


def test_help_lists_every_command(perdure: Command) -> None:
    answer = perdure("--help")
    assert answer.code == 0
    for name in (name for names in SECTIONS.values() for name in names):
        assert f"\n  {name} " in answer.out
    assert perdure("runs", "--help").code == 0
    assert perdure("--version").out.startswith("perdure ")


@pytest.mark.parametrize(
    "arguments", [("lsit",), ("runs", "--limit", "many"), ("show",), ("explain", "a", "b")]
)
def test_a_wrong_command_line_exits_with_2(perdure: Command, place: Path, arguments: tuple[str, ...]) -> None:
    assert perdure(*arguments).code == 2


def test_a_wrong_command_line_is_a_document_as_well(perdure: Command, place: Path) -> None:
    answer = perdure("runs", "--json", "--limit", "many")
    assert answer.code == 2
    assert answer.document["error"]["exit"] == 2
    assert answer.document["error"]["code"] is None


def test_an_error_says_what_is_safe_and_a_remedy_without_a_traceback(perdure: Command, place: Path) -> None:
    answer = perdure("runs")
    assert answer.out == ""
    assert [line.split()[0] for line in answer.err.splitlines()] == ["error[U705]:", "safe", "remedy", "more"]
    assert "Traceback" not in answer.err
    traced = perdure("runs", "--trace")
    assert "Traceback" in traced.err
    assert traced.code == 3


def test_an_error_is_one_document_for_a_program(perdure: Command, place: Path) -> None:
    answer = perdure("runs", "--json")
    assert answer.err == ""
    assert set(answer.document["error"]) == {
        "code",
        "name",
        "what",
        "where",
        "safe",
        "remedy",
        "facts",
        "exit",
    }


def test_a_fault_of_our_own_is_told_as_one(
    perdure: Command, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("perdure.cli.listing.draw_runs", broken)
    answer = perdure("runs")
    assert answer.code == 1
    assert "Traceback" not in answer.err
    assert "ZeroDivisionError" in answer.err
    assert "--trace" in answer.err
    assert "Traceback" in perdure("runs", "--trace").err


def test_a_reader_that_leaves_ends_the_command_quietly(store: Path) -> None:
    listing = subprocess.Popen(
        [sys.executable, "-m", "perdure", "explain"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.close()
    assert listing.stderr.read() == b""
    assert listing.wait() == 1
    listing.stderr.close()


SLOW = {
    "perdure.agent",
    "perdure.host",
    "perdure.journal",
    "perdure.codec.shape",
    "perdure.demo",
    "importlib.metadata",
}
"""What a look at the list of runs has no use for; loading it would be felt at every call."""


@pytest.mark.parametrize("arguments", [["runs"], ["runs", "--json"], ["inbox"], ["inbox", "--json"]])
def test_a_look_at_the_list_loads_little(store: Path, arguments: list[str]) -> None:
    program = (
        "import sys\nfrom perdure.cli import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert "perdure.store.sqlite" in loaded
    assert not loaded & SLOW


@pytest.mark.parametrize("kind", list(errors.catalogue()), ids=lambda kind: kind.code)
def test_every_error_has_an_exit_code_that_is_documented(kind: type[errors.PerdureError]) -> None:
    code = exits.code_of(kind("it happened"))
    assert code in exits.MEANING
    assert code != exits.OK
