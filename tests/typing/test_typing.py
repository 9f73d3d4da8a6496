"""What a type checker makes of users' code: shop.py and agents.py pass in strict mode, refused.txt does not.

Every line of refused.txt that is marked `# expect-error: CODE...` must have exactly these errors, and no
other line may have any. The two modules are real: importing them declares everything that they write down.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.agent import Agent, Finished, Tool
from tests.typing import agents, shop

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ERROR = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$", re.MULTILINE)
MARK = re.compile(r"# expect-error: (?P<codes>[a-z -]+)$")


def _mypy(*files: Path) -> str:
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty"]
    done = subprocess.run(
        [*command, *map(str, files)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
def test_what_users_write_passes() -> None:
    assert "Success" in _mypy(HERE / "shop.py", HERE / "agents.py")


@pytest.mark.slow
def test_mistakes_are_refused(tmp_path: Path) -> None:
    text = (HERE / "refused.txt").read_text()
    file = tmp_path / "refused.py"
    file.write_text(text)
    expected: dict[int, list[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if found := MARK.search(line):
            expected[number] = sorted(found["codes"].split())
    assert len(expected) > 20
    got: dict[int, list[str]] = {}
    for error in ERROR.finditer(_mypy(file)):
        got.setdefault(int(error["line"]), []).append(error["code"])
    assert {line: sorted(codes) for line, codes in got.items()} == expected


def test_what_users_write_can_be_imported() -> None:
    for agent in (agents.desk, agents.coder, agents.night, agents.counter, agents.nothing):
        assert isinstance(agent, Agent)
        agent.validate()
        assert agent.step_fn is not None
    assert agents.desk.lists(shop.refund)
    assert agents.desk.lists(agents.ledger.balance)
    assert agents.desk.lists(shop.order), "a premise of a listed tool"
    assert not agents.desk.lists(shop.Ledger("eur").balance)
    assert set(agents.desk.tools) == {"refund", "stamp", "balance", "fetch"}
    assert all(isinstance(tool, Tool) for tool in shop.tools)
    assert agents.told(Finished("paid")) == "paid"
