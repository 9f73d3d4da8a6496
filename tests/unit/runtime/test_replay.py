"""The order in which outcomes are given: recorded ones as they were recorded, before anything is asked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest

from perdure.runtime.replay import ROUNDS, Replay
from perdure.state.record import CallRecord, RunRecord, Standing, WaitRecord


def recorded(
    *calls: tuple[str, int], waits: Iterable[WaitRecord] = (), standing: Standing = "done"
) -> RunRecord:
    """A run whose open step has recorded these calls, each with the event that settled it."""
    made = {path: CallRecord(path, "look", "read", (), b"", "", standing, 1, seq=seq) for path, seq in calls}
    return RunRecord(seq=100, calls=made, waits={wait.path: wait for wait in waits})


async def turn(times: int = 3) -> None:
    """Let others go on; fewer turns than make an active branch count as waiting."""
    for _ in range(times):
        await asyncio.sleep(0)


def asks(replay: Replay, path: str, seq: int) -> asyncio.Task[bool]:
    """A branch that asks for a recorded call and waits for its turn."""

    async def ask() -> bool:
        replay.asked(path)
        replay.enter()
        return await replay.given(seq)

    return asyncio.create_task(ask())


def asks_anew(replay: Replay) -> asyncio.Task[bool]:
    """A branch that asks for what was not recorded."""

    async def ask() -> bool:
        replay.enter()
        return await replay.live()

    return asyncio.create_task(ask())


async def test_where_nothing_was_recorded_everything_is_live() -> None:
    replay = Replay(RunRecord())
    assert replay.over
    assert not replay.replaying
    assert replay.never_asked() is None
    replay.enter()
    assert await replay.live()
    assert await replay.given(7)


async def test_outcomes_are_given_in_their_order_and_not_in_that_of_asking() -> None:
    """Each only when the branch that had the one before it waits again."""
    replay = Replay(recorded(("1:0.0.0", 9), ("1:0.1.0", 5), ("1:0.2.0", 7)))
    replay.branch_out(3)
    first = asks(replay, "1:0.0.0", 9)
    second = asks(replay, "1:0.1.0", 5)
    await turn()
    assert not second.done()  # the third is active
    third = asks(replay, "1:0.2.0", 7)
    await turn()
    assert (first.done(), second.done(), third.done()) == (False, True, False)
    replay.ended(last=False)
    await turn()
    assert (first.done(), third.done()) == (False, True)
    assert replay.replaying
    replay.ended(last=False)
    await turn()
    assert first.done()
    assert replay.over
    assert [task.result() for task in (first, second, third)] == [True] * 3


async def test_live_outcomes_that_are_there_together_are_given_one_at_a_time() -> None:
    """The earlier event first, the next when its branch waits again."""
    replay = Replay(RunRecord())
    replay.branch_out(3)
    later, earlier = asks(replay, "1:0.0.0", 8), asks(replay, "1:0.1.0", 6)
    await turn()
    assert not earlier.done()  # the third branch is active
    replay.enter()
    await turn()
    assert (earlier.done(), later.done()) == (True, False)
    replay.ended(last=False)
    await turn()
    assert later.done()


async def test_what_is_asked_anew_waits_until_everything_recorded_was_given() -> None:
    replay = Replay(recorded(("1:0.0.0", 3), ("1:0.1.0", 4)))
    replay.branch_out(3)
    live = asks_anew(replay)
    one, other = asks(replay, "1:0.0.0", 3), asks(replay, "1:0.1.0", 4)
    await turn()
    assert one.done()
    assert not live.done()
    replay.ended(last=False)
    await turn()
    assert other.done()
    assert live.result()
    assert replay.over


async def test_a_recorded_call_that_nobody_asks_for_is_a_mismatch() -> None:
    """Told as soon as every branch waits; all of them go on, and learn it."""
    replay = Replay(recorded(("1:0", 3), ("1:1", 5)))
    replay.enter()
    replay.asked("1:1")
    assert await replay.given(5) is False
    assert replay.mismatch == 3
    assert not replay.over
    assert await replay.live() is False
    replay.enter()
    assert await replay.given(5) is False
    assert replay.never_asked() == 3


async def test_a_mismatch_releases_who_would_go_live() -> None:
    replay = Replay(recorded(("1:0.0.0", 3), ("1:0.1.0", 5)))
    replay.branch_out(2)
    live = asks_anew(replay)
    waiting = asks(replay, "1:0.1.0", 5)
    await turn()
    assert (live.result(), waiting.result()) == (False, False)


@pytest.mark.parametrize(("standing", "seq"), [("open", 0), ("unknown", 0), ("not_done", 0), ("retrying", 4)])
async def test_a_call_without_an_outcome_is_to_be_asked_for_and_not_to_be_given(
    standing: Standing, seq: int
) -> None:
    """A failure after which it is tried again is no outcome either."""
    replay = Replay(recorded(("1:0", seq), standing=standing))
    assert not replay.replaying
    assert replay.over
    assert replay.never_asked() == seq
    replay.asked("1:0")
    assert replay.never_asked() is None


async def test_a_wait_that_has_ended_is_given_in_its_place_and_an_open_one_is_not() -> None:
    ended = WaitRecord("1:0", "sleep", 50, 3, closed=6, how="due")
    replay = Replay(recorded(("1:1", 4), waits=[ended, WaitRecord("1:2", "sleep", 60, 7)]))
    replay.branch_out(2)
    slept, called = asks(replay, "1:0", 6), asks(replay, "1:1", 4)
    await turn()
    assert (slept.done(), called.done()) == (False, True)
    replay.ended(last=False)
    await turn()
    assert slept.done()
    assert replay.never_asked() == 7


async def test_what_is_drawn_without_waiting_leaves_its_place() -> None:
    """Now, random and new_id are given at once, also before an earlier outcome of another branch."""
    replay = Replay(recorded(("1:0.0.0", 3), ("1:0.1.0", 4)))
    replay.branch_out(2)
    first = asks(replay, "1:0.0.0", 3)
    replay.asked("1:0.1.0")
    replay.passed(4)
    await turn()
    assert not first.done()
    replay.ended(last=False)
    await turn()
    assert first.done()
    assert replay.over


async def test_a_branch_that_gives_up_waiting_is_active_again() -> None:
    """Nobody else is given anything before it waits or ends."""
    replay = Replay(recorded(("1:0.0.0", 3), ("1:0.1.0", 4)))
    replay.branch_out(3)
    given_up, other = asks(replay, "1:0.1.0", 4), asks(replay, "1:0.0.0", 3)
    await turn()
    given_up.cancel()
    await turn()
    assert given_up.cancelled()
    replay.ended(last=False)  # the third branch
    await turn()
    assert not other.done()
    replay.ended(last=False)  # who gave up
    await turn()
    assert other.done()


async def test_a_branch_that_waits_for_another_one_keeps_nobody_waiting() -> None:
    """It asked for nothing in many turns of the loop: it waits for a lock, or a queue, that only it knows."""
    replay = Replay(recorded(("1:0.0.0", 3)))
    replay.branch_out(2)
    other = asks(replay, "1:0.0.0", 3)
    await turn(ROUNDS // 2)
    assert not other.done()
    await turn(ROUNDS)
    assert other.done()


async def test_a_busy_branch_is_waited_for_however_many_turns_it_takes() -> None:
    """As long as somebody asks for something now and then."""
    replay = Replay(RunRecord())
    replay.branch_out(3)
    other = asks(replay, "1:0.0.0", 5)
    for _ in range(6):
        await turn(ROUNDS // 2)
        replay.enter()
        replay.leave()
    assert not other.done()


async def test_a_branch_without_a_place_is_let_in_if_its_outcome_is_the_next() -> None:
    """Its turn came earlier when the step was live: somebody else was blocked then."""
    replay = Replay(recorded(("1:0.0.0", 5), ("1:0.1.0", 3)))
    replay.branch_out(2)
    doors: list[str] = []

    def let_in() -> bool:
        if doors:
            return False
        doors.append("in")
        replay.leave()
        return True

    replay.door(let_in)
    replay.wait()  # the second branch has no place
    first = asks(replay, "1:0.0.0", 5)
    await turn()
    assert doors == ["in"]
    assert replay.mismatch is None
    second = asks(replay, "1:0.1.0", 3)
    await turn()
    assert second.result()
    replay.ended(last=False)
    await turn()
    assert first.result()


# ----------------------------------------------------------------------------------- live and replayed alike


class Play:
    """Branches that call one after the other; `trace` tells in which order they went on."""

    def __init__(self, chance: random.Random, record: RunRecord, seqs: dict[str, int], clock: int) -> None:
        self.chance = chance
        self.replay = Replay(record)
        self.record = record
        self.seqs = dict(seqs)
        self.clock = clock
        self.trace: list[str] = []

    async def branch(self, number: int, calls: int, busy: int, left: list[int]) -> None:
        """One branch; between its calls it is busy for some turns."""
        for place in range(calls):
            path = f"1:0.{number}.{place}"
            known = path in self.record.calls
            if known:
                self.replay.asked(path)
            self.replay.enter()
            if not known:
                assert await self.replay.live()
                for _ in range(self.chance.randrange(12)):
                    await asyncio.sleep(0)
                self.clock += 1
                self.seqs[path] = self.clock
            assert await self.replay.given(self.seqs[path])
            self.trace.append(path)
            await turn(busy)
        left[0] -= 1
        self.replay.ended(last=not left[0])

    async def through(self, shape: list[tuple[int, int]]) -> list[str]:
        """All branches, to their end."""
        left = [len(shape)]
        self.replay.branch_out(len(shape))
        await asyncio.gather(
            *(self.branch(number, calls, busy, left) for number, (calls, busy) in enumerate(shape))
        )
        assert self.replay.over
        assert self.replay.never_asked() is None
        return self.trace


@pytest.mark.parametrize("seed", range(40))
async def test_the_branches_go_on_in_the_same_order_live_replayed_and_after_a_crash(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    shape = [(chance.randint(1, 4), chance.randrange(4)) for _ in range(chance.randint(1, 5))]
    live = Play(chance, RunRecord(), {}, 10)
    trace = await live.through(shape)
    assert sorted(trace, key=lambda path: live.seqs[path]) == trace
    for _ in range(3):
        cut = chance.randint(0, len(trace))
        kept = {path: live.seqs[path] for path in trace[:cut]}
        again = Play(chance, recorded(*kept.items()), kept, 10 + cut)
        assert (await again.through(shape))[:cut] == trace[:cut]
    whole = Play(chance, recorded(*live.seqs.items()), live.seqs, 99)
    assert await whole.through(shape) == trace
