"""The table of field cases is whole, and each test that it names is there and says which case it holds."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.cases.table import CASES, HELD, WAITS

ROOT = Path(__file__).parents[2]
_ID = re.compile(r"\bO-\d{3}\b")


@cache
def _docs(path: str) -> dict[str, str]:
    """The tests of a file, with their docstrings."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {
        node.name.removeprefix("test_"): ast.get_docstring(node) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_case_is_held_or_waits_for_a_feature() -> None:
    assert sorted({*HELD, *WAITS}) == sorted(CASES)
    assert all(WAITS.values())


@pytest.mark.parametrize("case", HELD)
def test_what_holds_a_case_is_there_and_says_so(case: str) -> None:
    """Tests that perdure ships as its contract name no case."""
    for address in HELD[case]:
        path, _, name = address.partition("::")
        assert (ROOT / path).exists(), f"{case}: there is no {path}"
        assert name in _docs(path), f"{case}: {path} has no test_{name}"
        if path.startswith("tests/"):
            assert case in _docs(path)[name], f"{case}: the docstring of test_{name} does not say so"


def test_no_test_claims_a_case_that_is_none() -> None:
    """And a file of this folder claims no case that the table gives to nobody."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        where = path.relative_to(ROOT).as_posix()
        if path == Path(__file__):
            continue
        for name, text in _docs(where).items():
            for case in _ID.findall(text):
                assert case in CASES, f"{where}: test_{name} says {case}"
                assert case in HELD, f"{where}: test_{name} says {case}, and the table gives it to nobody"
