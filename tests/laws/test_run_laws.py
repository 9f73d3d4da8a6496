"""The laws of one machine, over random programs, crashes, stops, cancels, lost answers and late ones.

A program is drawn, run by one or two workers that are killed, frozen and stopped at random boundaries, and
judged: every call's life against what the outside saw (laws 1 to 4, 17), the budget against the events (7),
the fold from every snapshot and from none (5), epochs and order (6, 15), messages once (10), the ending
against a pure model (18, 19), and that it ends at all (20).
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from perdure.recovery import verdicts
from perdure.runtime import reconcile
from perdure.runtime.purse import Purse
from perdure.state import fold
from perdure.state.amount import NOTHING, Amount
from perdure.state.ledger import settle
from perdure.state.record import CallRecord, Ledger, Spent
from tests.laws.programs import draw_program
from tests.laws.world import Chances, World

pytestmark = pytest.mark.filterwarnings(
    # A task that is cancelled before it began leaves its coroutine unawaited; killed processes do that.
    "ignore:coroutine .* was never awaited:RuntimeWarning",
)

EXAMPLES = round(200 * float(os.environ.get("PERDURE_CRASH_SCALE", "1")))

CHANCES = st.builds(
    Chances,
    kill=st.sampled_from((0.0, 0.01, 0.03, 0.08)),
    freeze=st.sampled_from((0.0, 0.01, 0.03)),
    lose=st.sampled_from((0.0, 0.1, 0.4)),
    fail=st.sampled_from((0.0, 0.1, 0.3)),
    stop=st.sampled_from((0.0, 0.05)),
    cancel=st.sampled_from((0.0, 0.3)),
)
"""How hard the world is."""


@given(chances=CHANCES, seed=st.integers(0, 1 << 32), runs=st.integers(1, 2), workers=st.integers(1, 2))
@settings(max_examples=EXAMPLES, phases=(Phase.generate,))  # a smaller seed is no simpler world
def test_laws_hold_whatever_happens(chances: Chances, seed: int, runs: int, workers: int) -> None:
    """Any program, any crashes: nothing offends."""
    world = World(seed, chances, workers)
    chance = random.Random(seed)
    world.run({f"r{number}": draw_program(chance) for number in range(runs)})
    assert not world.found, "\n".join(world.found)


def test_the_worlds_are_hard_enough() -> None:
    """Sometimes each thing happens: a law that is never in danger is not tested."""
    seen: Counter[str] = Counter()
    for seed in range(25):
        world = World(seed, Chances(kill=0.03, freeze=0.01, lose=0.3, stop=0.05, cancel=0.3), 2)
        chance = random.Random(seed)
        world.run({"r": draw_program(chance)})
        assert not world.found, "\n".join(world.found)
        seen.update(kills=world.kills, freezes=world.freezes, stops=world.stops, acts=len(world.acts))
        seen.update(raises=world.raises)
        seen.update(cancels=len(world.cancelled), moved=len(world.moved))
        seen.update(line.split()[1] for line in world.trace)
    for what in (
        "kills",
        "freezes",
        "stops",
        "cancels",
        "raises",
        "intent.queued",
        "moved",
        "reconcile.ask",
        "call.unknown",
        "run.hold",
    ):
        assert seen[what] > 0, (what, seen)


def test_the_same_seed_is_the_same_world() -> None:
    """A failure can be repeated from its seed alone."""
    traces = []
    for _ in range(2):
        world = World(7, Chances(kill=0.03, freeze=0.02, stop=0.05, cancel=0.3), 2)
        world.run({f"r{number}": draw_program(random.Random(number)) for number in range(2)})
        traces.append(world.trace)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 50


def test_control_a_verdict_that_comes_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If "it did not happen" is believed while the request may still be under way, the judge says so."""

    def at_once(call: object, policy: object) -> int:
        return 0

    monkeypatch.setattr(verdicts, "settle_from", at_once)
    assert _first_offence(Chances(kill=0.08, fail=0.0), "said not to have happened, and it did") is not None


def test_control_an_act_made_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an irreversible call is sent again without a verdict, the judge says so."""
    decide = verdicts.after_unknown

    def naive(call: CallRecord, policy: verdicts.CallPolicy, now: int) -> verdicts.Action:
        return verdicts.Again() if call.effect == "irreversible" else decide(call, policy, now)

    monkeypatch.setattr(reconcile, "after_unknown", naive)
    assert _first_offence(Chances(kill=0.05, lose=0.3), "made again without a verdict") is not None


def _first_offence(chances: Chances, words: str) -> int | None:
    """The first seed in whose world the judge says these words."""
    for seed in range(200):
        world = World(seed, chances, 1)
        world.run(
            {"r": [[["call", "pay", 1], ["call", "send", 2]], [["gather", [[["call", "pay", 3]]] * 2]]]}
        )
        if any(words in said for said in world.found):
            return seed
    return None


def test_control_a_rest_that_is_reserved_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If branches do not see what others were promised, the judge says that the budget is crossed."""
    monkeypatch.setattr(Purse, "pledged", lambda purse, record, but: NOTHING)
    assert _first_overspent("crosses the budget") is not None


def test_control_a_reservation_that_a_crash_gives_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If nobody pays for what was under way, the judge's own sums are others."""

    def generous(ledger: Ledger, spent: Spent, name: str, used: Amount | None) -> tuple[Ledger, Spent]:
        return settle(ledger, spent, name, used or NOTHING)

    monkeypatch.setattr(fold, "settle", generous)
    assert _first_overspent("its events say") is not None


def _first_overspent(words: str) -> int | None:
    """The first seed in whose world, where models are asked side by side, the judge says these words."""
    step = [["gather", [[["call", tool, number]] for number in range(4) for tool in ("think", "pay")]]]
    for seed in range(60):
        world = World(seed, Chances(kill=0.04), 1)
        world.run({"r": [step, step]})
        if any(words in said for said in world.found):
            return seed
    return None
