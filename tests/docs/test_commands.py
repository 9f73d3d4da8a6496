"""Every command that a page prints exists, with each of its options, so that it can be typed as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from perdure.cli.program import program

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").glob("*.md")))]
INLINE = re.compile(r"`((?:[A-Z_]+=\S+ )?perdure [a-z][^`]*)`")
COMMAND = re.compile(r"^(?:\$ )?((?:[A-Z_]+=\S+ )?perdure [a-z].*)$")


def printed(text: str) -> Iterator[str]:
    """The commands in a page's code blocks and code spans; what follows a # or several spaces is an aside."""
    block = ""
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            block = "" if block else line.strip().removeprefix("```") or "text"
        elif block == "python":
            continue
        elif block and (found := COMMAND.match(line.strip())):
            yield re.split(r" {2,}| # | && | · ", found[1])[0]
        elif not block:
            yield from INLINE.findall(line)


def wrong(command: str) -> str:
    """What cannot be typed so, or nothing."""
    words = command.split()
    rest = words[words.index("perdure") + 1 :]
    name = ""
    known: click.Command | None = program
    while isinstance(known, click.Group) and rest and not rest[0].startswith("-") and not rest[0].isupper():
        name = f"{name} {rest[0]}".strip()
        known = known.get_command(click.Context(known), rest.pop(0))
    if known is None:
        return f"there is no perdure {name}"
    options = {option for one in known.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    return ", ".join(
        f"perdure {name} takes no {word}"
        for word in (word.partition("=")[0] for word in words)
        if word.startswith("--") and word not in options
    )


@pytest.mark.parametrize("page", PAGES)
def test_printed_commands_exist(page: str) -> None:
    complaints = [
        f"{command}: {trouble}"
        for command in printed((ROOT / page).read_text(encoding="utf-8"))
        if (trouble := wrong(command))
    ]
    assert complaints == []


def test_control_commands() -> None:
    """What is found on a page, and what is wrong with it."""
    page = "Say `perdure why RUN`.\n```\n$ perdure run a.py --idd x    # aside\nX_Y=1 perdure nope\n"
    page += "perdure lab plan --seed 1 --x\nperdure lab nope\nperdure lab WORD\n```\n"
    found = list(printed(page))
    assert found == [
        *("perdure why RUN", "perdure run a.py --idd x", "X_Y=1 perdure nope"),
        *("perdure lab plan --seed 1 --x", "perdure lab nope", "perdure lab WORD"),
    ]
    assert [wrong(command) for command in found] == [
        "",
        "perdure run takes no --idd",
        "there is no perdure nope",
        "perdure lab plan takes no --x",
        "there is no perdure lab nope",
        "",
    ]
