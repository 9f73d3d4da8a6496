"""docs/lab.md is what its data make, and its data have the shape that the experiments have today."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import pytest

from perdure.errors import CannotWrite
from perdure.lab import page
from perdure.lab.report import Table
from tests.unit.lab.test_report import Line

DOCS = Path(__file__).parents[3] / "docs"


def data() -> tuple[str, list[page.Section]]:
    text = (DOCS / "lab" / "results.json").read_text(encoding="utf-8")
    return json.loads(text)["machine"], list(page.read(DOCS).values())


def test_the_page_is_what_its_data_make() -> None:
    assert (DOCS / "lab.md").read_text(encoding="utf-8") == page.page(*data())


def test_every_section_has_its_picture_and_every_picture_its_section() -> None:
    _, sections = data()
    names = [section.name for section in sections]
    assert names == list(page.EXPERIMENTS)
    assert sorted(path.stem for path in (DOCS / "lab").glob("*.svg")) == sorted(names)
    for section in sections:
        module = import_module(f"perdure.lab.{section.name}")
        kinds = [kind for kind in vars(module).values() if getattr(kind, "name", None) == section.name]
        assert [(kind.title, kind.caption) for kind in kinds] == [(section.title, section.caption)]


def test_a_section_is_the_same_after_it_was_data() -> None:
    section = page.Section.of(Line(), 3)
    assert page.Section.read(json.loads(json.dumps(asdict(section)))) == section


def test_a_page_is_written_and_one_experiment_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def measuring(name: str) -> Callable[[int, object], Line]:
        def measure(seed: int, tick: object) -> Line:
            made.append(f"{name}/{seed}")
            line = Line()
            object.__setattr__(line, "name", name)
            return line

        return measure

    for name in page.EXPERIMENTS:
        monkeypatch.setitem(page.EXPERIMENTS, name, f"What of {name}?")
    monkeypatch.setattr(
        page, "import_module", lambda name: type("M", (), {"measure": measuring(name.rpartition(".")[2])})
    )
    written = page.report(tmp_path, 7, lambda what, done, of: None)
    assert made == [f"{name}/7" for name in page.EXPERIMENTS]
    assert {path.name for path in written} >= {"lab.md", "results.json", "storage.svg"}
    text = (tmp_path / "lab.md").read_text(encoding="utf-8")
    assert text.count("## A line") == len(page.EXPERIMENTS)
    assert "![A line.](lab/storage.svg)" in text
    page.report(tmp_path, 8, lambda what, done, of: None, ["plan"])
    again = (tmp_path / "lab.md").read_text(encoding="utf-8")
    assert again == text.replace("`perdure lab plan --seed 7`", "`perdure lab plan --seed 8`")
    with pytest.raises(CannotWrite):
        page.report(tmp_path / "missing", 1, lambda what, done, of: None)


def test_text_cannot_act_on_the_page() -> None:
    section = replace(page.Section.of(Line(), 1), name="storage", sentences=("a * b < c",))
    table = Table(("a|b",), (("x|y",),))
    text = page.page("here", [replace(section, tables=(table,))])
    assert "| a\\|b |" in text
    assert "| x\\|y |" in text
    assert "* a \\* b &lt; c" in text
