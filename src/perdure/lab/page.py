"""docs/lab.md from the experiments: run each, keep what it found as data, draw it, write the page.

What was found lies beside the page (lab/results.json), so that one experiment can be run again alone, and so
that a test can see whether the page is what its data make. Knows no experiment's inside: a module with
`measure(seed, tick)` is all it asks for.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import apsw

from perdure.errors import CannotWrite
from perdure.lab import plot
from perdure.lab.report import Result, Table, Tick

EXPERIMENTS: dict[str, str] = {
    "storage": (
        "The field keeps agents in three ways: the whole state after each step, a log of what was added, or"
        " both. On paper the size is that of the JSON and nothing else, in a model of a few lines"
        ' (`perdure/lab/model.py`): the state is `{"n": step, "messages": [text, ...]}`, the event'
        ' `{"n": step, "add": text}`. Below it, the same run on real stores. It dies by SIGKILL once in each'
        " of as many equal parts as there are kills, at a random place of a random step, and a new process"
        " carries it on. *Handed over* is what the journal gives the store, *written* what the kernel saw the"
        " process write to any file, *file* what is left after a checkpoint, *load* the median time to read,"
        " verify and fold the run, *calls again* the model calls that were made more than once."
    ),
    "stale": (
        "A run that was paused acts on what it read before the pause. How often is that no longer true, and"
        " what does it cost to look again?"
    ),
    "diverge": (
        "Running an agent again from the start is no recovery where its model says something else the second"
        " time. How often is the second run another run?"
    ),
    "crash": (
        "One act, and a process that is killed between, before and after its parts. What becomes of the"
        " effect under a naive retry loop, under a checkpoint without keys, and here?"
    ),
    "migrate": (
        "A run outlives the code that began it. What becomes of its state under new code without a chain of"
        " migrations, with one, and under code that is older than the state?"
    ),
    "plan": (
        "What would a load need? Constants that were measured on this machine, and arithmetic from there;"
        " each line says which of the two it is."
    ),
}
"""Every experiment of the page, in its order, and what it asks; each is `perdure.lab.NAME`."""

FOLDER = "lab"
"""Beside the page: its pictures and its data."""


@dataclass(frozen=True)
class Section:
    """What the page shows of one experiment."""

    name: str
    title: str
    caption: str
    seed: int
    tables: tuple[Table, ...]
    sentences: tuple[str, ...]

    @classmethod
    def of(cls, result: Result, seed: int) -> Section:
        """Of a result."""
        tables, sentences = tuple(result.tables()), tuple(result.sentences())
        return cls(result.name, result.title, result.caption, seed, tables, sentences)

    @classmethod
    def read(cls, document: dict[str, Any]) -> Section:
        """From its data."""
        tables = tuple(
            Table(tuple(one["heads"]), tuple(tuple(row) for row in one["rows"]), one["title"])
            for one in document["tables"]
        )
        return cls(**{**document, "tables": tables, "sentences": tuple(document["sentences"])})


def report(into: Path, seed: int, tick: Tick, only: Sequence[str] = ()) -> list[Path]:
    """Run the experiments (or those named) and write into/lab.md, with pictures and data in into/lab.

    Returns what was written. Raises ExtraMissing before anything is run, and CannotWrite.
    """
    folder = into / FOLDER
    if not into.is_dir():
        raise CannotWrite(f"there is no folder {into.absolute()}", remedy="make it, or name another")
    folder.mkdir(exist_ok=True)
    plot.check(folder / "picture.svg")
    kept = read(into) if only else {}
    written = []
    for name in EXPERIMENTS:
        if only and name not in only:
            continue
        measure: Callable[[int, Tick], Result] = import_module(f"perdure.lab.{name}").measure
        result = measure(seed, _named(name, tick))
        kept[name] = Section.of(result, seed)
        plot.save(result, folder / f"{name}.svg")
        written.append(folder / f"{name}.svg")
    sections = [kept[name] for name in EXPERIMENTS if name in kept]
    data = {"machine": machine(), "sections": [asdict(section) for section in sections]}
    text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    for path, said in ((folder / "results.json", text), (into / "lab.md", page(data["machine"], sections))):
        path.write_text(said, encoding="utf-8")
        written.append(path)
    return written


def _named(name: str, tick: Tick) -> Tick:
    return lambda what, done, of: tick(f"{name}: {what}", done, of)


def read(into: Path) -> dict[str, Section]:
    """What was found before."""
    path = into / FOLDER / "results.json"
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"sections": []}
    return {one["name"]: Section.read(one) for one in data["sections"]}


def machine() -> str:
    """What kind of machine this is: no names, no paths."""
    return (
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, {platform.system()}"
        f" {platform.machine()}, {os.cpu_count()} cores"
    )


# ------------------------------------------------------------------------------------------- Markdown


def page(measured_on: Any, sections: Sequence[Section]) -> str:
    """The whole page."""
    return "\n".join([_HEAD.format(machine=measured_on), *(_section(one) for one in sections)])


_HEAD = """# The laboratory

`perdure lab` runs these experiments: what durable state costs on paper, and what it did when it was killed.
Each is one command; `--seed` makes it the same again, `--json` gives its raw figures, `--plot FILE` its
picture. This page is written by `perdure lab report --into docs`, or `make lab`; no figure in it was typed.

Measured on: {machine}. Bytes, counts and shares do not depend on how busy a machine is; times do.
"""


def _section(one: Section) -> str:
    command = f"`perdure lab {one.name} --seed {one.seed}`"
    out = [f"## {one.title}", "", command, "", EXPERIMENTS[one.name], ""]
    for table in one.tables:
        out += [*([f"**{table.title}**", ""] if table.title else []), *_table(table), ""]
    out += [f"![{one.caption}]({FOLDER}/{one.name}.svg)", ""]
    out += [f"* {_plain(sentence)}" for sentence in one.sentences]
    return "\n".join([*out, ""])


def _table(table: Table) -> list[str]:
    ruler = ["---:" if aligned else "---" for aligned in table.numeric()]
    rows = [table.heads, ruler, *table.texts()]
    return [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text as it stands: what Markdown or HTML would read into it is taken out."""
    return text.replace("<", "&lt;").replace("*", "\\*")
