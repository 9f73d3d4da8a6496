"""The laws of families, over random programs that spawn, fail, and are cancelled from both ends.

Two generations below each root, side by side and one after the other; workers are killed, frozen and stopped
at random boundaries, answers get lost. Judged like every run (tests/laws/test_run_laws.py), and beside one
another: no child without its parent's durable wait, none after a cancel, each end told as it was, one trace,
no parent that ends before its children.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from perdure import codec
from perdure.runtime import children, lineage
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.store.protocol import Message
from tests.laws.families import FamilyWorld
from tests.laws.programs import draw_family
from tests.laws.world import Chances

pytestmark = pytest.mark.filterwarnings(
    # A task that is cancelled before it began leaves its coroutine unawaited; killed processes do that.
    "ignore:coroutine .* was never awaited:RuntimeWarning",
)

EXAMPLES = round(60 * float(os.environ.get("PERDURE_CRASH_SCALE", "1")))

CHANCES = st.builds(
    Chances,
    kill=st.sampled_from((0.0, 0.005, 0.02)),
    freeze=st.sampled_from((0.0, 0.01)),
    lose=st.sampled_from((0.0, 0.1)),
    fail=st.sampled_from((0.0, 0.1)),
    stop=st.sampled_from((0.0, 0.05)),
    cancel=st.sampled_from((0.0, 0.3, 0.8)),
)


def _lived(seed: int, chances: Chances, workers: int) -> FamilyWorld:
    world = FamilyWorld(seed, chances, workers)
    world.run({"r": draw_family(random.Random(seed))})
    return world


@given(chances=CHANCES, seed=st.integers(0, 1 << 32), workers=st.integers(1, 2))
@settings(max_examples=EXAMPLES, phases=(Phase.generate,))  # a smaller seed is no simpler world
def test_laws_hold_in_families(chances: Chances, seed: int, workers: int) -> None:
    """Any family, any crashes, any cancels: nothing offends."""
    world = _lived(seed, chances, workers)
    assert not world.found, "\n".join(world.found)


def test_the_worlds_are_hard_enough() -> None:
    """Each end comes, and each boundary of a child's life is passed."""
    seen: Counter[str] = Counter()
    for seed in range(30):
        world = _lived(seed, Chances(kill=0.02, freeze=0.01, stop=0.05, cancel=0.5), 2)
        assert not world.found, "\n".join(world.found)
        seen.update(world.ends)
        seen.update(line.split()[1] for line in world.trace)
        seen.update(kills=world.kills, child_cancels=len(world.cancelled - {"r"}))
    for what in (
        *("succeeded", "failed", "cancelled", "kills", "child_cancels"),
        *("child.create", "child.created", "child.cancel", "wait.closed"),
    ):
        assert seen[what] > 0, (what, seen)


def _first_offence(words: str, chances: Chances, seeds: int = 60) -> str:
    """What the judge says of the first world in which it says these words, or in which a run never ends."""
    for seed in range(seeds):
        try:
            world = _lived(seed, chances, 1)
        except AssertionError as error:
            return str(error)
        for said in world.found:
            if words in said:
                return said
    return ""


def test_control_an_end_that_is_told_wrongly_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a child tells another result than it came to, the judge says so."""
    report = lineage.report

    def wrong(run_id: str, record: RunRecord, end: e.RunFinished, *, steps: int = 0) -> tuple[Message, ...]:
        told = changed(end, value=codec.encode(999)) if end.status == "succeeded" else end
        return report(run_id, record, told, steps=steps)

    monkeypatch.setattr(lineage, "report", wrong)
    assert "with another value" in _first_offence("with another value", Chances(kill=0.0))


def test_control_children_that_are_left_behind_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a cancelled parent does not wait for its children, the judge says so."""

    async def nobody(*_: object) -> list[object]:
        return []

    monkeypatch.setattr(children, "call_back", nobody)
    hard = replace(Chances(kill=0.0), cancel=1.0)
    assert "has ended before its child" in _first_offence("has ended before its child", hard)
