"""The story of a bad run: told by its page, by the program, and by the commands that the page names."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests.docs.test_told_examples import EXAMPLES, SCREEN, ran

PAGE = (EXAMPLES / "fork" / "README.md").read_text()
COMMANDS = [block.split() for block in re.findall(r"^perdure (.*)$", PAGE, re.MULTILINE)]


def test_the_page_shows_what_happens_and_nothing_happens_twice(tmp_path: Path) -> None:
    agent = str(EXAMPLES / "fork" / "agent.py")
    printed, shown = SCREEN.findall(PAGE)
    assert sorted(ran(tmp_path, agent).splitlines()) == sorted(printed.splitlines())
    assert "[" not in "".join(line for line in ran(tmp_path, agent).splitlines() if line.startswith(" "))
    lines = iter(ran(tmp_path, "-m", "perdure", "show", "order-1042-mended").splitlines())
    for wanted in shown.splitlines():
        words = re.split(r"\s+", wanted)
        assert any(all(word in line for word in words) for line in lines), wanted


def test_the_commands_tell_the_same_story(tmp_path: Path) -> None:
    """The bad run is made by the agent itself; everything else is typed."""
    shutil.copy(EXAMPLES / "fork" / "agent.py", tmp_path)
    ran(tmp_path, "-m", "perdure", "run", "agent.py", "o-77", "--id", "order-1042")
    before = ran(tmp_path, "-m", "perdure", "show", "order-1042", "--events", "--json")
    said = []
    for command in COMMANDS[1:]:
        if command[0] in ("state", "fork", "run", "effect", "diff"):
            codes = (0, 4) if command[0] == "run" else (0,)
            said.append(ran(tmp_path, "-m", "perdure", *command, codes=codes))
    assert "HELD: reuse, act or simulate" in said[1]
    assert "Nothing written" in said[1]
    assert [text for text in said if "[bank]" in text] == []
    assert sum("[mail]" in text for text in said) == 1
    assert ran(tmp_path, "-m", "perdure", "show", "order-1042", "--events", "--json") == before
    run = json.loads(ran(tmp_path, "-m", "perdure", "show", "order-1042-mended", "--json"))
    assert (run["result"], run["fork"]["origin"], run["fork"]["at"]) == ("rf-corrected", "order-1042", 3)
