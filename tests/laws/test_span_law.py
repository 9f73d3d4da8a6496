"""Law 16 as it is told: one trace for a family, no span twice, whatever is killed, frozen or stopped.

Random families in random worlds, told by every process that lives in them. What a killed process could not
tell is missing and nothing else is: in a world in which nobody is killed every fact has its span, every span
its parent, within its parent's time.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter

import pytest

from perdure.journal import history
from perdure.runtime.birth import trace_of
from perdure.state import events as e
from perdure.store.protocol import Query
from tests.laws.families import FamilyWorld
from tests.laws.programs import draw_family
from tests.laws.world import Chances
from tests.unit.observe.spans import Told, id_of, told, whole
from tests.unit.observe.spans import trace_of as trace_in

pytestmark = pytest.mark.filterwarnings(
    # A task that is cancelled before it began leaves its coroutine unawaited; killed processes do that.
    "ignore:coroutine .* was never awaited:RuntimeWarning",
)

SEEDS = range(round(15 * float(os.environ.get("PERDURE_CRASH_SCALE", "1"))))
GENTLE = Chances(kill=0.0, freeze=0.0, lose=0.3, fail=0.2, stop=0.05, cancel=0.2)
HARD = Chances(kill=0.03, freeze=0.02, lose=0.3, fail=0.2, stop=0.05, cancel=0.2)


def _lived(seed: int, chances: Chances) -> tuple[FamilyWorld, Told]:
    """A world, and what was told of it. The laws hold though somebody listens."""
    print(f"seed {seed}")
    world, chance = FamilyWorld(seed, chances, 2), random.Random(seed)
    with told() as tale:
        world.run({"r": draw_family(chance)})
    assert not world.found, "\n".join(world.found)
    return world, tale


@pytest.mark.parametrize("seed", SEEDS)
def test_no_span_comes_twice_whatever_is_killed(seed: int) -> None:
    """And all of them are in the one trace."""
    _, tale = _lived(seed, HARD)
    assert {f"{trace_in(span):032x}" for span in tale.spans} == {trace_of("r")}
    counts = Counter((id_of(span), span.name) for span in tale.spans)
    assert max(counts.values()) == 1, counts.most_common(3)
    assert len({id_of(span) for span in tale.spans}) == len(tale.spans)


@pytest.mark.parametrize("seed", SEEDS)
def test_where_nobody_is_killed_everything_is_told(seed: int) -> None:
    """A tree with every step, every attempt that has an outcome, and every run."""
    world, tale = _lived(seed, GENTLE)
    whole(tale.spans)
    facts: Counter[str] = Counter()

    async def count() -> None:
        for row in await world.store.list(Query()):
            for event in await history(world.store, row.run_id):
                match event.body:
                    case e.CallSettled(head=e.CallHead(name=name)) if name in e.DRAWN:
                        pass
                    case e.CallSettled() | e.CallUnknown():
                        facts["attempts"] += 1
                    case e.StepCommitted():
                        facts["steps"] += 1
                    case e.RunFinished():
                        facts["runs"] += 1
                    case _:
                        pass

    asyncio.run(count())
    said = Counter(span.name.split()[0] for span in tale.spans)
    assert said["invoke_agent"] == facts["runs"]
    assert said["chat"] + said["execute_tool"] == facts["attempts"]
    assert said["step"] >= facts["steps"]
