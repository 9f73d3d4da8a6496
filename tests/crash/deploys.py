"""Crash scenarios of deploys: the code changes while its run waits, twice, by a batch and by a resume."""

from __future__ import annotations

from typing import Any

from perdure import FOREVER, Agent, Done, NotDone, current_call
from perdure.recovery.migrations import Migration
from perdure.testing.crash import RUN_ID, Hands, Outside, Scenario, reply_of, truthful

FIELDS = ("items", "goods", "wares")
"""What the one list of the state is called, in each version."""


def _renamed(version: int) -> Migration:
    return Migration(lambda old: {FIELDS[version]: old[FIELDS[version - 1]]}, lossy=version == 2)


def upgrade(desk: Agent[Any, Any, Any], version: int) -> None:
    """Deploy: from now on this process runs code of this version."""
    desk.version, desk.state_version = str(version), version
    desk.migrations = {older: _renamed(older) for older in range(1, version)}


def _build(outside: Outside, hands: Hands) -> Agent[Any, Any, Any]:
    desk = Agent("desk", state=dict, start=lambda goal: {"items": ["tea"]})
    deployed = [version for version in (2, 3) if outside.noted(RUN_ID, f"version {version}")]
    upgrade(desk, max(deployed, default=1))
    if desk.state_version > 1:
        desk._start = lambda goal: {FIELDS[desk.state_version - 1]: ["tea"]}

    @desk.tool(effect="irreversible")
    async def post(items: list[str]) -> str:
        return str(outside.act(f"posted {items}"))

    @post.reconcile
    async def posted(items: list[str]) -> Done[str] | NotDone:
        assert items == ["tea"]
        found = outside.find(current_call().key)
        return NotDone() if found is None else Done(reply_of(found))

    @desk.step
    async def step(run: Any) -> None:
        (items,) = run.state.values()
        receipt = await post(items)
        word = await run.wait("word", str, timeout=FOREVER)
        items.append(word)
        run.finish([receipt, await post(["tea"])])

    return desk


async def _deploying(place: Any, run_id: str, outcome: Any) -> bool:
    """People who deploy version two and migrate what is parked, then version three, then say the word."""
    if outcome.status != "waiting":
        return await truthful(place, run_id, outcome)
    desk = place.runtime.agents["desk"]
    following = desk.state_version + 1
    if following <= len(FIELDS):
        place.outside.note(run_id, f"version {following}")
        upgrade(desk, following)
    if following == 2:
        await place.runtime.migrate()
    else:
        await place.runtime.signal(run_id, "word", "now", id="word-1")
    return True


deployed = Scenario("deployed", _build, person=_deploying)
