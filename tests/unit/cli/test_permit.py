"""Commands about permissions: who is asked, who decides, and what it came to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import perdure as library
from perdure.agent import Approval
from perdure.errors import ApprovalDenied
from perdure.host import Runtime
from tests.unit.cli.conftest import Command

APP = """
from datetime import timedelta
import perdure
from perdure import Approval

desk = perdure.Agent("desk", state=dict, start=lambda goal: {})

@desk.tool(effect="irreversible", approval=Approval(expires=timedelta(hours=1)))
async def pay(to: str, cents: int) -> str:
    return f"{to} has {cents}"

@desk.step
async def step(run):
    run.finish(await pay("ada", 1200))
"""


def desk(**policy: Any) -> Any:
    """An agent that pays three people, each with a permission, and then a fourth one with none."""
    made: library.Agent[Any, Any, Any] = library.Agent("desk", state=dict, start=lambda goal: {})

    @made.tool(effect="irreversible", approval=Approval(**({"expires": timedelta(hours=1)} | policy)))
    async def pay(to: str, cents: int) -> str:
        return f"{to} has {cents}"

    @made.tool(effect="idempotent")
    async def tell(what: str) -> str:
        return what

    @made.step
    async def step(run: Any) -> None:
        async def one(to: str) -> str:
            try:
                return str(await pay(to, 1200))
            except ApprovalDenied as error:
                return error.what

        paid = await run.map(one, run.goal.split())
        run.finish([*paid, await tell("paid")])

    return made


@pytest.fixture
def carry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the desk in this process, on the store that the commands mean."""
    path = tmp_path / "perdure.db"
    monkeypatch.setenv("PERDURE_STORE", str(path))

    def run(goal: str = "ada", run_id: str = "r-1", made: Any = None) -> Any:
        async def drive() -> Any:
            agent = made or desk()
            async with Runtime(str(path), [agent]) as runtime:
                return await runtime.run(agent, run_id, goal)

        return asyncio.run(drive())

    return run


def test_an_empty_inbox(perdure: Command, carry: Callable[..., Any]) -> None:
    carry("", made=desk(when=lambda cents: False))
    assert perdure("inbox").out.strip() == "nobody is asked for anything"


def test_the_inbox_shows_what_is_asked_and_how_to_answer(perdure: Command, carry: Callable[..., Any]) -> None:
    (asked,) = carry(made=desk(by="finance", quorum=2)).approvals
    answer = perdure("inbox")
    assert asked.id in answer.out
    assert "role finance" in answer.out
    assert "pay(to='ada', cents=1200)" in answer.out
    assert f"perdure approve {asked.id} --role finance\n" in answer.out
    assert f"perdure deny {asked.id} --role finance --note WHY\n" in perdure("why", "r-1").out
    (entry,) = perdure("inbox", "--json").document["entries"]
    assert (entry["kind"], entry["id"], entry["who"]) == ("approval", asked.id, "role finance")
    assert not entry["a_message_has_come"]
    refused = perdure("approve", asked.id, "--by", "ana")
    assert refused.code == 5
    assert f"perdure approve {asked.id} --role finance\n" in refused.err
    assert perdure("approve", asked.id, "--by", "ana", "--role", "finance").code == 0
    (entry,) = perdure("inbox", "--json").document["entries"]
    assert entry["a_message_has_come"]


def test_approve_deny_and_what_audit_says_of_it(perdure: Command, carry: Callable[..., Any]) -> None:
    first, second = carry("ada bob").approvals
    told = perdure("approve", "r-1", "--by", "ana")
    assert (told.code, "asks for 2" in told.err) == (3, True)
    assert perdure("approve", first.id, "--by", "ana", "--note", "fine", "--json").document == {
        "approval": first.id,
        "accepted": "approve",
        "by": "ana",
    }
    assert "recorded: deny" in perdure("deny", second.id, "--by", "eve", "--note", "too much").out
    late = perdure("approve", second.id, "--by", "ana")
    assert (late.code, "denied by eve" in late.err) == (5, True)
    carry("ada bob")
    acts = perdure("audit", "r-1", "--json").document["acts"]
    assert [(act["call"]["name"], act["guarantee"]) for act in acts] == [
        ("pay", "not made"),
        ("pay", "once"),
        ("tell", "key-deduplicated"),
    ]
    assert acts[0]["permits"][0]["by"] == "eve"
    assert acts[1]["permits"][0]["agreed"] == [{"by": "ana", "note": "fine"}]
    drawn = perdure("audit", "r-1").out
    assert "ana (fine)" in drawn
    assert "denied by eve (too much)" in drawn
    assert "nobody is asked" in perdure("inbox").out


def test_the_only_request_of_a_run_need_not_be_named(perdure: Command, carry: Callable[..., Any]) -> None:
    """Field case O-053."""
    (asked,) = carry().approvals
    assert perdure("approve", "r-1").out.startswith(f"recorded: approve {asked.id}")
    assert carry().result == ["ada has 1200", "paid"]
    assert perdure("approve", "r-1").code == 3
    assert perdure("approve", asked.id).code == 5


def test_an_edit_needs_the_code_and_is_what_runs(
    perdure: Command, carry: Callable[..., Any], tmp_path: Path
) -> None:
    app = tmp_path / "shop.py"
    app.write_text(APP)
    library_agent = f"{app}:desk"
    from perdure.cli.app import load

    (asked,) = carry(made=load(library_agent)).approvals
    assert "A408" in perdure("approve", asked.id, "--edit", "cents=5").err
    wrong = perdure("approve", asked.id, "--edit", "cents=many", "--app", library_agent)
    assert (wrong.code, "A403" in wrong.err) == (5, True)
    assert perdure("approve", asked.id, "--edit", "cents", "--app", library_agent).code == 2
    done = perdure("approve", asked.id, "--edit", "cents=5", "--app", library_agent, "--json")
    assert done.document["edit"] == {"cents": 5}
    assert carry(made=load(library_agent)).result == "ada has 5"
    assert "edited: cents=5" in perdure("audit", "r-1").out


def test_why_and_show_tell_of_the_permission(perdure: Command, carry: Callable[..., Any]) -> None:
    (asked,) = carry().approvals
    answer = perdure("why", "r-1")
    assert f'{asked.id}: may it pay(to="ada", cents=1200)? anyone may decide' in answer.out
    assert f"perdure deny {asked.id}" in answer.out
    assert "asks whether it may: pay" in perdure("show", "r-1").out
    assert "1 needs a person" in perdure("runs").out
    perdure("deny", asked.id, "--note", "no\x1b[31m")
    carry()
    shown = perdure("show", "r-1").out
    assert "denied by" in shown
    assert "\x1b[31m" not in shown


def test_run_tells_what_it_asks_for(perdure: Command, carry: Callable[..., Any], tmp_path: Path) -> None:
    app = tmp_path / "shop.py"
    app.write_text(APP)
    answer = perdure("run", f"{app}:desk", "go", "--id", "r-1")
    assert answer.code == 4
    assert "perdure approve r-1~" in answer.out
    document = perdure("run", f"{app}:desk", "go", "--id", "r-1", "--json").document
    assert [one["args"] for one in document["approvals"]] == [{"to": "ada", "cents": 1200}]


def test_held_runs_are_in_the_inbox(perdure: Command, carry: Callable[..., Any]) -> None:
    made: library.Agent[Any, Any, Any] = library.Agent("desk", state=dict, start=lambda goal: {})

    @made.step
    async def step(run: Any) -> None:
        raise ValueError("a bug")

    carry(made=made)
    (entry,) = perdure("inbox", "--json").document["entries"]
    assert (entry["kind"], entry["commands"]) == ("held", ["perdure why r-1"])
    assert "a bug" in entry["what"]


def test_what_does_not_exist(perdure: Command, carry: Callable[..., Any]) -> None:
    carry()
    for wrong in ("nobody", "r-1~0123456789ab", "r-9~0123456789ab"):
        answer = perdure("approve", wrong)
        assert (answer.code, "A405" in answer.err) == (3, True), wrong
