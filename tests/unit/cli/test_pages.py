"""The pages about the command line and about errors say what the program says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
import pytest

from perdure import errors
from perdure.cli import exits
from perdure.cli.program import program
from perdure.timeline.condition import MEANING

PAGES = Path(__file__).parents[3] / "docs"
ERRORS = (PAGES / "errors.md").read_text(encoding="utf-8")
CLI = (PAGES / "cli.md").read_text(encoding="utf-8")


def table(below: str) -> dict[str, str]:
    """The first table below a heading: first column -> second."""
    text = CLI.split(f"## {below}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `?([^|`]+?)`? \| ([^|]+?) \|$", text, re.MULTILINE)
    return dict(rows[1:])


def test_the_exit_codes() -> None:
    assert table("Exit codes") == {str(code): text for code, text in exits.MEANING.items()}


def test_the_words_for_how_a_run_stands() -> None:
    assert table("How a run stands") == MEANING


def section(kind: type[errors.PerdureError]) -> str:
    found = re.search(rf"^### {kind.code} {kind.__name__}\n(.*?)(?=^##|\Z)", ERRORS, re.MULTILINE | re.DOTALL)
    assert found, f"docs/errors.md has no section `### {kind.code} {kind.__name__}`"
    return " ".join(found[1].split())


@pytest.mark.parametrize("kind", list(errors.catalogue()), ids=lambda kind: kind.code)
def test_each_error_is_explained_as_it_explains_itself(kind: type[errors.PerdureError]) -> None:
    text = section(kind)
    assert " ".join((inspect.getdoc(kind) or "").split()) in text
    assert not kind.default_safe or f"**Safe:** {kind.default_safe}" in text
    assert not kind.default_remedy or f"**Remedy:** {' '.join(kind.default_remedy.split())}" in text
    assert "```" in text, f"{kind.code} has no example"


def commands() -> list[click.Command]:
    context = click.Context(program)
    return [found for name in program.list_commands(context) if (found := program.get_command(context, name))]


@pytest.mark.parametrize("command", commands(), ids=lambda command: command.name)
def test_each_command_has_a_section_that_names_its_own_options(command: click.Command) -> None:
    text = CLI.split(f"### perdure {command.name}\n", 1)[1].split("\n### ", 1)[0].split("\n## ", 1)[0]
    shared = {"store", "json", "trace", "by", "note"}
    for option in command.params:
        if isinstance(option, click.Option) and option.name not in shared:
            assert any(name in text for name in option.opts), f"{command.name} {option.opts}"


@pytest.mark.parametrize("command", commands(), ids=lambda command: command.name)
def test_each_command_says_in_a_line_what_it_does(command: click.Command) -> None:
    assert command.help
    assert command.short_help
    assert len(command.short_help) <= 72
