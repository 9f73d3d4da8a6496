"""The documentation cannot rot: what the code has, the pages name, and what the pages show, runs.

* docs/errors.md has one heading for each error code, and no other; no two errors share a code.
* docs/format.md has an entry (a heading, table row or list item with the kind as code) for each event kind.
* docs/cli.md names each command as `perdure NAME`.
* docs/api.md lists the front door: the code spans of its level-3 headings are exactly `perdure.__all__`,
  and below each is how it is called.
* Every python block of README.md and docs/ compiles and runs, alone, in an empty folder and without keys.
  A comment on the line above changes that: `<!-- no-run: why -->` only compiles, `<!-- continued -->` runs
  after the blocks above it on its page. (A second word after ```python would do on GitHub, but the site's
  renderer takes such a block for a paragraph; so it is allowed in README.md only.)

A page or a room that is not there yet is skipped; `perdure` without a front door has nothing to run.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.house.signatures import described
from tests.house.source import files, read

RUN_SECONDS = 60
HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+) *(?P<info>[^`\n]*)$")


@dataclass(frozen=True)
class Block:
    """A python block: where it starts, what it says, and how its page wants it treated."""

    page: str
    line: int
    code: str
    runs: bool = True
    continued: bool = False
    complaint: str = ""

    @property
    def place(self) -> str:
        """page:line."""
        return f"{self.page}:{self.line}"


def headings(text: str) -> list[str]:
    """The headings of a page, of every level, outside code blocks."""
    return HEADING.findall(_without_code(text))


def _without_code(text: str) -> str:
    kept: list[str] = []
    ticks = ""
    for line in text.splitlines():
        found = FENCE.match(line)
        if found and not ticks:
            ticks = found["ticks"]
        elif found and found["ticks"] == ticks and not found["info"]:
            ticks = ""
        elif not ticks:
            kept.append(line)
    return "\n".join(kept)


def undocumented_codes(codes: Iterable[str], text: str) -> list[str]:
    """Codes without a heading, and headings for codes that no error has."""
    codes = set(codes)
    named = {code for one in headings(text) for code in re.findall(r"\b[A-Z]\d{3}\b", one)}
    return [
        *(f"{code} has no heading in docs/errors.md" for code in sorted(codes - named)),
        *(f"docs/errors.md explains {code}, which no error has" for code in sorted(named - codes)),
    ]


def undocumented_kinds(kinds: Iterable[str], text: str) -> list[str]:
    """Event kinds that no heading, table row or list item names as code."""
    entries = [line.lstrip() for line in text.splitlines() if line.lstrip().startswith(("#", "|", "-", "*"))]
    return [
        f"`{kind}` has no entry in docs/format.md"
        for kind in kinds
        if not any(f"`{kind}`" in entry for entry in entries)
    ]


def undocumented_commands(commands: Iterable[str], text: str) -> list[str]:
    """Commands that the page does not name."""
    return [
        f"`perdure {command}` is not in docs/cli.md"
        for command in commands
        if not re.search(rf"\bperdure {re.escape(command)}(?![\w-])", text)
    ]


def listed_names(text: str) -> list[str]:
    """What docs/api.md lists: the identifier at the start of each code span in a level-3 heading."""
    spans = (
        span
        for one in re.findall(r"^### +(.*)$", _without_code(text), re.MULTILINE)
        for span in CODE.findall(one)
    )
    return [found[0] for span in spans if (found := re.match(r"[A-Za-z_]\w*", span.removeprefix("perdure.")))]


def blocks(page: str, text: str) -> Iterator[Block]:
    """The python blocks of a page, in order."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opened = FENCE.match(lines[number])
        start = number
        number += 1
        if not opened or not opened["info"]:
            continue
        while number < len(lines) and lines[number].strip() != opened["ticks"]:
            number += 1
        words = opened["info"].split()
        if words[0] in ("python", "py"):
            body = "\n".join(line.removeprefix(opened["indent"]) for line in lines[start + 1 : number])
            yield _block(page, start, body, words[1:], lines[start - 1].strip() if start else "")
        number += 1


def _block(page: str, start: int, code: str, words: list[str], above: str) -> Block:
    comment = re.fullmatch(r"<!-- *(no-run|continued)(?::.*)? *-->", above)
    marks = {word for word in words if "=" not in word} | ({comment[1]} if comment else set())
    complaint = ""
    if marks - {"no-run", "continued"}:
        complaint = f"unknown words after ```python: {sorted(marks - {'no-run', 'continued'})}"
    elif page != "README.md" and any("=" not in word for word in words):
        complaint = "the site shows this block as a paragraph: put <!-- no-run --> on the line above instead"
    return Block(page, start + 1, code, "no-run" not in marks, "continued" in marks, complaint)


def programs(page: str, text: str) -> Iterator[tuple[Block, str]]:
    """Each block with the program it makes: its own code, after that of the blocks that it continues."""
    before = ""
    for block in blocks(page, text):
        before = f"{before}\n\n{block.code}" if block.continued else block.code
        yield block, before


def trouble(block: Block, program: str, folder: Path) -> str:
    """What is wrong with a block, or nothing."""
    if block.complaint:
        return block.complaint
    flags = 0 if block.runs else ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        compile(program, block.place, "exec", flags | ast.PyCF_ONLY_AST)
    except SyntaxError as error:
        return f"does not compile: {error}"
    if not block.runs:
        return ""
    script = folder / "block.py"
    script.write_text(program + "\n", encoding="utf-8")
    known = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_TOKEN"))}
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=folder,
        env=known | {"PERDURE_STORE": str(folder / "perdure.db")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    return f"ends with exit code {done.returncode}:\n{done.stderr[-2000:]}" if done.returncode else ""


def _page(name: str) -> str:
    text = read(name) if name in files() else None
    if text is None:
        pytest.skip(f"{name} is not there yet")
    return text


def _room(name: str) -> Any:
    if (
        f"src/{name.replace('.', '/')}.py" not in files()
        and f"src/{name.replace('.', '/')}/__init__.py" not in files()
    ):
        pytest.skip(f"{name} is not there yet")
    return importlib.import_module(name)


def _told(complaints: list[str]) -> None:
    if complaints:
        pytest.fail("\n".join(["the pages and the code differ:", *complaints]), pytrace=False)


def _below(kind: Any) -> Iterator[Any]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def _codes() -> list[str]:
    errors = _room("perdure.errors")
    return [
        one.code for one in (*_below(errors.PerdureError), *_below(errors.Signal)) if vars(one).get("code")
    ]


def test_no_two_errors_share_a_code() -> None:
    """A code names one error."""
    codes = _codes()
    assert codes
    assert sorted(codes) == sorted(set(codes))


def test_every_error_is_explained() -> None:
    """docs/errors.md and perdure.errors have the same codes."""
    _told(undocumented_codes(_codes(), _page("docs/errors.md")))


def test_every_event_kind_is_specified() -> None:
    """docs/format.md has an entry for each kind that a journal may hold."""
    events = _room("perdure.state.events")
    kinds = [str(one.__struct_config__.tag) for one in _below(events.Body)]
    assert "call.intended" in kinds
    _told(undocumented_kinds(kinds, _page("docs/format.md")))


def test_every_command_is_listed() -> None:
    """docs/cli.md names each command."""
    import click

    program = _room("perdure.cli.program").program
    assert isinstance(program, click.Group)
    context = click.Context(program)
    commands = list(program.list_commands(context))
    assert "demo" in commands
    _told(undocumented_commands(commands, _page("docs/cli.md")))


def test_the_front_door_is_listed() -> None:
    """docs/api.md lists exactly what `from perdure import *` gives."""
    door = _room("perdure")
    text = _page("docs/api.md")
    listed, exported = listed_names(text), list(door.__all__)
    assert sorted(exported) == sorted(set(exported))
    assert all(hasattr(door, name) for name in exported)
    missing, stale = set(exported) - set(listed), set(listed) - set(exported)
    _told(
        [
            *(f"{name} is in perdure.__all__ and not in docs/api.md" for name in sorted(missing)),
            *(f"{name} is in docs/api.md and not in perdure.__all__" for name in sorted(stale)),
        ]
    )


def written_signatures(text: str) -> dict[str, str]:
    """The first text block below each level-3 heading of docs/api.md, by the heading's name."""
    found: dict[str, str] = {}
    for section in re.split(r"^### +", text, flags=re.MULTILINE)[1:]:
        names = CODE.findall(section.partition("\n")[0])
        block = re.search(r"^```text\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)
        if names:
            found[names[0]] = block[1] if block else ""
    return found


def test_the_front_door_is_called_as_it_is_written() -> None:
    """docs/api.md has each signature as `inspect.signature` gives it."""
    door = _room("perdure")
    written = written_signatures(_page("docs/api.md"))
    _told(
        [
            f"docs/api.md, {name}: write\n```text\n{now}\n```"
            for name in door.__all__
            if (now := described(name, getattr(door, name))) != written.get(name)
        ]
    )


def test_control_signatures() -> None:
    """What is missing, stale and right is told apart."""
    page = "### `Agent`\n\nWords.\n\n```text\nAgent(name: str)\n```\n\n### `use`\n\nNo block.\n"
    assert written_signatures(page) == {"Agent": "Agent(name: str)", "use": ""}

    def made(path: str, /, *rest: int, flag: bool = False, at: object = ...) -> list[str]:
        """A function of every kind of parameter."""
        return [path]

    assert described("made", made) == (
        "made(path: str, /, *rest: int, flag: bool = False, at: object = ...) -> list[str]"
    )


PAGES = [
    name for name in files() if name == "README.md" or (name.startswith("docs/") and name.endswith(".md"))
]
PROGRAMS = [one for name in PAGES for one in programs(name, read(name) or "")]


@pytest.mark.parametrize(("block", "program"), PROGRAMS, ids=[block.place for block, _ in PROGRAMS])
def test_a_python_block_of_the_pages_works(block: Block, program: str, tmp_path: Path) -> None:
    """What a page shows can be copied and run."""
    if block.runs and "src/perdure/__init__.py" not in files():
        pytest.skip("perdure has no front door yet")
    wrong = trouble(block, program, tmp_path)
    if wrong:
        pytest.fail(f"{block.place}: {wrong}", pytrace=False)


def test_control_errors_kinds_commands_names() -> None:
    """Each checker sees what is missing and what is stale, and passes what is there."""
    page = "# Errors\n\n## S101 StoreGone\n\n```\n# S102 is code\n```\n\n### `S103`: old\nS104 in passing\n"
    assert undocumented_codes(["S101", "S102", "S104"], page) == [
        "S102 has no heading in docs/errors.md",
        "S104 has no heading in docs/errors.md",
        "docs/errors.md explains S103, which no error has",
    ]
    page = "| `run.held` | reason |\n\nSome words on `run.started`.\n\n### `run.finished`\n"
    assert undocumented_kinds(["run.held", "run.started", "run.finished"], page) == [
        "`run.started` has no entry in docs/format.md"
    ]
    assert undocumented_commands(["run", "show"], "Use `perdure runs` or `perdure show`.") == [
        "`perdure run` is not in docs/cli.md"
    ]
    page = "## `Not`\n### `Agent(name, *, state)`\n### `tool`, `perdure.fact`\ntext `Other`\n### Words\n"
    assert listed_names(page) == ["Agent", "tool", "fact"]


GOOD_PAGE = """
```python
x = 1
```

<!-- continued -->
```python title="more.py"
assert x == 1
```

<!-- no-run: needs a key -->
```python
await call()
```

- in a list

    ```python
    if True:
        print("indented")
    ```

```bash
not python
```
"""


def test_control_good_blocks_pass(tmp_path: Path) -> None:
    """Blocks that run, continue, only compile, or stand in a list."""
    found = list(programs("docs/a.md", GOOD_PAGE))
    assert [(block.runs, block.continued) for block, _ in found] == [
        (True, False),
        (True, True),
        (False, False),
        (True, False),
    ]
    assert [block.line for block, _ in found] == [2, 7, 12, 18]
    assert [trouble(block, program, tmp_path) for block, program in found] == [""] * 4


@pytest.mark.parametrize(
    ("page", "text", "said"),
    [
        ("docs/a.md", "```python\nraise SystemExit(3)\n```", "exit code 3"),
        ("docs/a.md", "```python\nx ==\n```", "does not compile"),
        ("docs/a.md", "<!-- no-run -->\n```python\nx ==\n```", "does not compile"),
        ("docs/a.md", "```python no-run\nx = 1\n```", "the line above"),
        ("README.md", "```python never\nx = 1\n```", "unknown words"),
        ("docs/a.md", "```python\nx = 1\n```\n```python\nassert x\n```", "NameError"),
    ],
)
def test_control_bad_blocks_are_seen(page: str, text: str, said: str, tmp_path: Path) -> None:
    """A block that fails, does not parse, or would be shown as a paragraph."""
    *_, (block, program) = programs(page, text)
    assert said in trouble(block, program, tmp_path)


def test_control_readme_may_mark_its_fences(tmp_path: Path) -> None:
    """On GitHub a second word is harmless."""
    ((block, program),) = programs("README.md", "```python no-run\nraise SystemExit(3)\n```")
    assert not block.runs
    assert trouble(block, program, tmp_path) == ""
