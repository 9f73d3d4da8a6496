"""Every kind of change meets every kind of open run: what becomes of it is what the page says, what was
foretold, and never an act too many.

The table of docs/deploys.md is this test's `EXPECTED`; a test compares the two.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from perdure import Principal
from perdure.errors import PerdureError
from perdure.runtime.forecast import MEANING, STOPPING, Forecast
from perdure.state import events as e
from tests.matrix.code import CHANGES, OLD
from tests.unit.runtime.stage import RUN, Stage, World, build

PAGE = Path(__file__).parents[2] / "docs" / "deploys.md"

SITUATIONS = {
    "waits": "waits for an approval, its charge settled",
    "killed": "was killed in the step, its charge settled",
    "unknown": "was killed in the step, and nobody knows whether it charged",
}
"""How the open run stands when the new code comes."""

BOUNDARIES = {"killed": ("approval.request", 1), "unknown": ("call.acted", 3)}


FAILED = "held: migration-failed"

EXPECTED: dict[str, tuple[str, str, str]] = {
    "nothing": ("resumes", "resumes", "resumes"),
    "a tool added": ("resumes", "resumes", "resumes"),
    "a tool removed that the step does not use": ("resumes", "resumes", "resumes"),
    "a tool removed, and its call with it": ("diverges", "diverges", "held: changed"),
    "a tool renamed": ("diverges", "diverges", "held: changed"),
    "a tool renamed, `renamed=` says so": ("resumes", "resumes", "resumes"),
    "an argument added": ("diverges", "diverges", "held: changed"),
    "an argument added to a tool whose approval is open": ("held: changed", "resumes", "resumes"),
    "an argument's type changed": ("diverges", "diverges", "held: changed"),
    "the effect class changed": ("resumes", "resumes", "held: changed"),
    "the model replaced": ("held: changed", "held: changed", "held: changed"),
    "the model replaced, `models=` says so": ("resumes", "resumes", "resumes"),
    "a permission revoked": ("held: not-permitted", "held: not-permitted", "held: not-permitted"),
    "the identity gone": ("held: not-permitted", "held: not-permitted", "held: not-permitted"),
    "an approval expired": ("held: step-error", "resumes", "resumes"),
    "a state field added, with a default": ("resumes", "resumes", "resumes"),
    "a state field removed, with a migration": ("migrates", "migrates", "migrates"),
    "a state field renamed, with a migration": ("migrates", "migrates", "migrates"),
    "a state field retyped, with a migration": ("migrates", "migrates", "migrates"),
    "a state field retyped, without one": (
        "held: migration-failed",
        "held: migration-failed",
        "held: migration-failed",
    ),
    "a migration that fails": (FAILED, FAILED, FAILED),
    "a state version skipped": ("stranded: state-gap", "stranded: state-gap", "stranded: state-gap"),
    "an older state version": ("stranded: state-newer", "stranded: state-newer", "stranded: state-newer"),
    "another agent version": ("resumes", "resumes", "resumes"),
    "an older agent version": ("stranded: not-served", "stranded: not-served", "stranded: not-served"),
    "calls of the step reordered": ("diverges", "diverges", "diverges"),
    "a call inserted before the recorded point": (
        "diverges",
        "diverges",
        "diverges",
    ),
    "the same behind `run.since`": ("resumes", "resumes", "resumes"),
    "a call inserted after the recorded point": ("resumes", "resumes", "resumes"),
    "the agent renamed": ("stranded: not-served", "stranded: not-served", "stranded: not-served"),
}
"""What becomes of the run, by change and situation: the table of the page."""


async def begun(stage: Stage, situation: str, world: World) -> None:
    """A run of the old code that stands so."""
    agent = OLD.agent(world)
    async with stage.runtime(agent) as place:
        await place.start(agent, RUN, "go", principal=Principal("ann"))
    if situation == "waits":
        outcome = await stage.run(agent)
        assert [one.tool for one in outcome.approvals] == ["refund"]
        return
    await stage.crash(agent, *BOUNDARIES[situation])


async def kept(stage: Stage) -> Any:
    """Everything that belongs to the run, but for its lease."""
    store = stage.store
    loaded = await store.load(RUN)
    return (await store.read(RUN, 0, 10_000), await store.snapshots(RUN), loaded.snapshot, loaded.inbox)


async def foretold(stage: Stage, change: str, world: World) -> Forecast:
    """What preflight says, which leaves no trace."""
    before = await stage.store.load(RUN)
    async with stage.runtime(CHANGES[change].agent(world)) as place:
        [forecast] = (await place.preflight()).forecasts
    assert await stage.store.load(RUN) == before
    return forecast


async def happened(stage: Stage, change: str, situation: str, world: World) -> str:
    """What becomes of the run, in the words of the page."""
    if situation == "waits" and change != "an approval expired":
        async with stage.runtime() as place:
            [asked] = (await stage.record()).approvals.values()
            await place.approve(asked.id, by=Principal("boss"))
    before, events = await kept(stage), len(await stage.events())
    async with stage.runtime(CHANGES[change].agent(world)) as place:
        try:
            await place.resume(RUN)
        except PerdureError as refused:
            assert await kept(stage) == before, "a refused run is the same afterwards"
            row = await stage.store.row(RUN)
            held = row.status == "held"
            return (
                "held: migration-failed" if held else f"stranded: {_STRANDED.get(refused.code, 'not-served')}"
            )
    record, new = await stage.record(), [event.body for event in (await stage.events())[events:]]
    if record.held is not None:
        return "diverges" if record.held.reason == "diverged" else f"held: {record.held.reason}"
    word = "resumes"
    if any(isinstance(body, e.RunMigrated) for body in new):
        word = "migrates"
    if any(isinstance(body, e.StepRestarted) for body in new):
        word = "restarts"
    void = any(isinstance(body, e.ApprovalVoided | e.ApprovalExpired) for body in new)
    return word + ("; the approval is void" if void else "")


_STRANDED = {"M302": "state-gap", "M303": "state-newer"}


def words(forecast: Forecast) -> str:
    """The same of what was foretold."""
    if forecast.prospect == "diverges":
        return "diverges"
    if forecast.stops:
        return f"{forecast.prospect}: {forecast.reason}"
    return forecast.prospect + ("; the approval is void" if forecast.voided else "")


async def cell(tmp_path: Path, change: str, situation: str) -> tuple[str, str]:
    """What was foretold and what happened, and no act too many."""
    kind = "sqlite" if situation == "killed" else "memory"
    stage, world = build(kind, tmp_path), World()
    await stage.store.open()
    try:
        await begun(stage, situation, world)
        if change == "an approval expired":
            stage.clock.advance(25 * 3600)
        forecast = await foretold(stage, change, world)
        became = await happened(stage, change, situation, world)
        acts = [act.reply for act in world.acts]
        assert len(set(acts)) == len(acts) >= 1, (change, situation, world.acts)
        await stage.blameless(world)
        return words(forecast), became
    finally:
        await stage.close()


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_and_a_run(tmp_path: Path, change: str, situation: str) -> None:
    """What is foretold is what happens is what the page says; no act is made twice, none is lost."""
    foreseen, became = asyncio.run(cell(tmp_path, change, situation))
    assert became == foreseen
    assert became == EXPECTED[change][list(SITUATIONS).index(situation)]


# ------------------------------------------------------------------------------------------------- the page


def table() -> str:
    """The table as docs/deploys.md has it."""
    heads = ["what the deploy changes", *(f"a run that {words}" for words in SITUATIONS.values())]
    lines = ["| " + " | ".join(heads) + " |", "|---|---|---|---|"]
    lines += ["| " + " | ".join([change, *row]) + " |" for change, row in EXPECTED.items()]
    return "\n".join(lines)


def test_the_page_has_this_table() -> None:
    """docs/deploys.md says what was tested, word for word."""
    found = re.search(r"<!-- matrix -->\n(.*?)\n<!-- end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    assert found[1].strip() == table(), f"write:\n{table()}"


def test_every_row_is_there() -> None:
    """Nothing is expected of a change that is none, and every change is expected to do something."""
    assert list(EXPECTED) == list(CHANGES)


def test_the_page_knows_every_prospect() -> None:
    """What each means, and whether it stops a deploy."""
    text = PAGE.read_text(encoding="utf-8")
    for prospect, meaning in MEANING.items():
        stops = "yes" if prospect in STOPPING else "no"
        assert f"| `{prospect}` | {meaning} | {stops} |" in text
