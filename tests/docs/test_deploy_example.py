"""The story of three deploys: each command of examples/deploy/README.md says what the page shows."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.docs.test_told_examples import ran

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "deploy"
SCREEN = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: str) -> Iterator[tuple[list[str], list[str]]]:
    """Each command of the page, and the lines that stand below it."""
    for screen in SCREEN.findall(page):
        for part in screen.split("$ perdure ")[1:]:
            command, *lines = part.splitlines()
            yield shlex.split(command), lines


def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    """Each line below a command stands in what it says, in that order."""
    for file in FOLDER.glob("*.py"):
        shutil.copy(file, tmp_path)
    count = 0
    for command, wanted in commands((FOLDER / "README.md").read_text()):
        output = ran(tmp_path, "-m", "perdure", *command, codes=range(256)).splitlines()
        lines = iter(output)
        for line in wanted:
            words = line.split()
            found = any(all(word in one for word in words) for one in lines)
            assert found, f"{command}: {line!r} is not in\n" + "\n".join(output)
        count += 1
    assert count == 12
