"""A tool forks, and its child comes back out of it: it must not carry its parent's run on."""

from __future__ import annotations

import signal
import subprocess

import pytest

from perdure.state import events as e
from tests.cases.field import Field
from tests.processes import SECONDS

_FORKS = """
agent = Agent("forker", state=dict)

def split():
    book("acts")
    pid = os.fork()
    if pid == 0:
        book("children")
        {end}
    book("codes", str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    return "parent"

@agent.tool(effect="irreversible")
{how}def tool() -> str:
    {body}

@agent.step
async def step(run):
    {before}
    run.finish(await {call})

if __name__ == "__main__":
    run_here(agent)
    book("mains")
"""

_TOOLS = {
    "a coroutine": {"how": "async ", "body": "return split()", "before": "pass", "call": "tool()"},
    "a thread": {"how": "", "body": "return split()", "before": "pass", "call": "run.call(tool)"},
    "a step": {"how": "async ", "body": 'return "parent"', "before": "split()", "call": "tool()"},
}
_ENDS = {
    "returns": ('return "child"', "1", True),
    "raises": ('raise ValueError("child")', "1", True),
    "is cancelled": ("raise asyncio.CancelledError", "1", True),
    "exits": ("sys.exit(3)", "3", False),
    "exits well": ("sys.exit()", "0", False),
}


@pytest.mark.parametrize("end", _ENDS)
@pytest.mark.parametrize("tool", _TOOLS)
async def test_a_child_that_comes_back_ends_there(field: Field, tool: str, end: str) -> None:
    """Whatever it does after that it would do as its parent, and with its parent's lease."""
    statement, code, told = _ENDS[end]
    field.program(_FORKS.format(end=statement, **_TOOLS[tool]))
    out, complaint = _to_its_end(field.process("app.py"))
    assert out.strip() == "succeeded"
    assert (len(field.lines("children")), len(field.lines("mains"))) == (1, 1)
    if tool != "a step":
        assert field.lines("codes") == [code]
        assert ("[T223]" in complaint) is told
    assert len(field.lines("acts")) == 1
    assert [one.outcome for one in await field.settled()] == ["done"]
    assert len(await field.facts(e.CallIntended)) == 1


def _to_its_end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it says; a child that lives on would keep its pipes open."""
    try:
        out, complaint = process.communicate(timeout=SECONDS / 2)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        pytest.fail("a child of it lives on")
    assert process.returncode == 0, complaint
    return out, complaint
