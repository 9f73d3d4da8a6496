"""The repository as text: which files it consists of, and how a Python file is read.

Knows git and `ast`; knows no rule. Files are those in git's index, or, outside a checkout, those found
on disk, so that a file somebody is still writing is judged when it is added and not before.
"""

from __future__ import annotations

import ast
import gc
import subprocess
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The top of the checkout."""

_BUILT = {"dist", "build", "site", "__pycache__"}


@dataclass(frozen=True)
class Source:
    """One Python file: its path relative to the root, with slashes, and its text."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        gc.disable()  # what it runs may parse as well, which Python 3.11 takes ill (python/cpython#106905)
        try:
            return ast.parse(self.text, self.path)
        finally:
            gc.enable()

    @property
    def module(self) -> str:
        """Its dotted name, for a file below src/."""
        parts = self.path.removeprefix("src/").removesuffix(".py").split("/")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _from_git() -> list[str] | None:
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [name for name in done.stdout.split("\0") if name]


def _from_disk() -> list[str]:
    paths = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    hidden = {".ci", ".gitignore"}
    return [
        path.as_posix()
        for path in paths
        if not any(part in _BUILT or (part.startswith(".") and part not in hidden) for part in path.parts)
    ]


@cache
def files() -> tuple[str, ...]:
    """Every file of the repository, sorted."""
    found = _from_git()
    names = _from_disk() if found is None else found
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


def read(path: str) -> str | None:
    """The text of a file, or None for bytes that are no text."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@cache
def python(*tops: str) -> tuple[Source, ...]:
    """The Python files below the given top folders."""
    names = [name for name in files() if name.endswith(".py") and name.split("/")[0] in tops]
    return tuple(Source(name, read(name) or "") for name in names)
