"""Printed commands can be typed as they stand: they name the store that is meant."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from perdure.cli.notice import remedy_of
from perdure.cli.program import program
from perdure.errors import AlreadyDecided, RunEnded, at_store
from tests.unit.cli.conftest import Command


def commands(text: str) -> list[list[str]]:
    """Every perdure command that a text prints, in words; what follows several spaces is an aside."""
    found = []
    for line in text.splitlines():
        before, mark, command = line.partition("perdure ")
        if mark and not before.strip().startswith("error"):
            found.append(shlex.split(command.split("    ")[0]))
    return found


@pytest.fixture
def elsewhere(store: Path) -> Path:
    """The same store, under another name, in a folder with a space."""
    place = store.parent / "other place"
    place.mkdir()
    return store.rename(place / "runs.db")


def test_a_look_prints_commands_that_work(perdure: Command, elsewhere: Path) -> None:
    for look in (("runs",), ("why", "order-1043"), ("show", "order-1043")):
        printed = [words for words in commands(perdure(*look, "--store", elsewhere).out) if words]
        assert printed
        for words in printed:
            assert words[1:3] == ["--store", str(elsewhere)], words


def test_a_printed_answer_is_accepted(perdure: Command, elsewhere: Path) -> None:
    printed = perdure("resolve", "order-1043", "--not-done", "--store", elsewhere).out
    assert f"--store {shlex.quote(str(elsewhere))}" in printed
    document = perdure("why", "order-1043", "--json", "--store", elsewhere).document
    [remedy] = [text for text in document["why"]["remedies"] if "perdure cancel" in text]
    answer = perdure(*shlex.split(remedy.split("    ")[0])[1:])
    assert (answer.code, answer.err) == (0, "")


def test_an_answered_run_asks_for_a_worker(perdure: Command, store: Path) -> None:
    assert perdure("resolve", "order-1043", "--not-done").code == 0
    document = perdure("why", "order-1043", "--json").document
    assert (document["why"]["needs"], document["run"]["status"]) == ("worker", "overdue")
    assert not any("resolve" in remedy for remedy in document["why"]["remedies"])
    assert "1 needs a person" not in perdure("runs").out


def test_an_error_names_the_store_in_its_remedy(perdure: Command, elsewhere: Path) -> None:
    answer = perdure("show", "no-such", "--store", elsewhere)
    assert answer.code == 3
    assert f"perdure runs --store {shlex.quote(str(elsewhere))} lists" in answer.err


def test_an_error_names_its_run_in_its_remedy() -> None:
    """What is printed can be typed, whichever of its facts knows the run."""
    ended = RunEnded("run r has ended", run_id="order-7")
    assert remedy_of(ended, None).startswith("perdure show order-7 tells")
    decided = AlreadyDecided("it was granted", approval_id="order-7~ab12")
    assert remedy_of(decided, "x.db") == "perdure audit --store x.db order-7 shows what was decided and done"
    assert "RUN" in remedy_of(RunEnded("some run has ended"), None)


def test_each_command_names_the_store_once() -> None:
    text = "perdure retry r, or perdure cancel r; perdure explain R201"
    said = at_store(text, "x.db")
    assert said == "perdure retry --store x.db r, or perdure cancel --store x.db r; perdure explain R201"
    assert at_store(said, "x.db") == said
    assert at_store(text, None) == text


@pytest.mark.parametrize("command", [("init", "{}/agent.py"), ("demo", "--dir", "{}/play")])
def test_a_place_that_cannot_be_written_is_told(
    perdure: Command, place: Path, command: tuple[str, ...]
) -> None:
    (place / "file").write_text("no folder")
    answer = perdure(*(word.format(place / "file") for word in command))
    assert answer.code == 1
    assert "error[U709]" in answer.err


def test_a_new_store_is_told_of(perdure: Command, place: Path) -> None:
    assert perdure("init").code == 0
    first = perdure("run", "agent.py", "--detach", "--id", "a", "--store", "typo.db")
    assert (first.code, f"new store {place / 'typo.db'}" in first.err) == (0, True)
    assert "new store" not in perdure("run", "agent.py", "--detach", "--id", "b", "--store", "typo.db").err
    nowhere = perdure("run", "agent.py", "--store", "nowhere/typo.db")
    assert "error[S102]" in nowhere.err
    assert "new store" not in nowhere.err


def test_a_worker_tells_of_a_new_store_and_of_no_old_one(perdure: Command, place: Path) -> None:
    assert perdure("init").code == 0
    for new in (True, False):
        command = [sys.executable, "-m", "perdure", "worker", "agent.py", "--store", "typo.db"]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        assert "serves refund-desk" in worker.stdout.readline()
        worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=30)
        assert (worker.returncode, f"new store {place / 'typo.db'}" in said) == (0, new)


def test_every_command_that_opens_a_store_can_be_printed_with_it() -> None:
    context = click.Context(program)
    commands = {name: program.get_command(context, name) for name in program.list_commands(context)}
    for name, command in commands.items():
        assert command is not None
        stored = any("--store" in option.opts for option in command.params)
        printed = at_store(f"perdure {name} x", "s.db")
        assert ("--store" in printed) == stored, name
