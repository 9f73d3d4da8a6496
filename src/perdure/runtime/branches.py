"""Several pieces of work of one step at once, each on a branch with a place of its own.

No branch cancels another, and all have ended or are blocked before the step goes on or unwinds. Where the
step itself gives up (a timeout of its own around a gather), the moment is recorded, so that a replay gives up
at the same place in the order of results.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeAlias

from perdure.errors import Signal
from perdure.journal.outlast import outlast
from perdure.runtime.execution import Branch, Execution, branch_scope, here
from perdure.runtime.giving_up import gather_head, gave_up_gather, give_up, served
from perdure.runtime.replay import Replay

Work: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
"""What one branch does."""


@dataclass
class Ended:
    """How a branch ended. `error` may be a signal: the branch is blocked."""

    value: Any
    error: BaseException | None


async def branch_out(execution: Execution, works: Sequence[Work], limit: int | None = None) -> list[Ended]:
    """Run each work on its own branch, at most `limit` at once.

    Raises a branch's signal, once all have ended.
    """
    parent = here(execution)
    place = parent.next_path()
    given_up = gave_up_gather(execution, parent, place)
    if not works:
        return []
    gate = _Gate(limit, execution.replay) if limit is not None else None
    execution.replay.branches(len(works) - (0 if given_up else 1))
    branches = [Branch(f"{place}.{number}.", None) for number in range(len(works))]
    tasks = [
        asyncio.create_task(_branch(execution, branch, work, gate), context=copy_context())
        for branch, work in zip(branches, works, strict=True)
    ]
    try:
        if given_up:
            await execution.turn(parent, place)
            await _drop(branches, tasks)
            raise served(execution.record.calls[place])
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        await _drop(branches, tasks)
        if (signal := _signal(tasks)) is not None:
            parent.unwinding = signal
        elif not execution.drive.stopping and not parent.given_up:
            give_up(execution, place, gather_head())
        raise
    except BaseException:
        await _drop(branches, tasks)
        raise
    finally:
        if not given_up:
            execution.replay.branches(1)
    if (signal := _signal(tasks)) is not None:
        parent.unwinding = signal
        raise signal
    return [task.result() for task in tasks]


async def _drop(branches: list[Branch], tasks: list[asyncio.Task[Ended]]) -> None:
    """End what is still going on, and wait for its end; our own cancellation is known already."""
    for branch, task in zip(branches, tasks, strict=True):
        branch.given_up = True
        task.cancel()
    await outlast(*tasks)


def _signal(tasks: list[asyncio.Task[Ended]]) -> Signal | None:
    for task in tasks:
        if not task.cancelled() and task.exception() is None and isinstance(task.result().error, Signal):
            signal: Any = task.result().error
            return signal  # type: ignore[no-any-return]
    return None


async def _branch(execution: Execution, branch: Branch, work: Work, gate: _Gate | None) -> Ended:
    branch.task = asyncio.current_task()
    branch_scope.set(branch)
    entered = False
    try:
        if gate is not None:
            await gate.enter()
        entered = True
        value = await work()
        return Ended(value, branch.unwinding)
    except (Signal, Exception, asyncio.CancelledError) as raised:  # noqa: BLE001  (told to the parent)
        return Ended(None, branch.unwinding or raised)
    finally:
        if gate is not None and entered:
            gate.leave()
        execution.replay.branches(-1)


class _Gate:
    """At most `limit` inside. Who waits here cannot make progress, and the replay must know it."""

    def __init__(self, limit: int, replay: Replay) -> None:
        self._free = limit
        self._replay = replay
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Wait for a place, first come, first served."""
        if self._free > 0:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._replay.branches(-1)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._replay.branches(1)
            else:
                self.leave()  # the place came together with the cancellation
            raise

    def leave(self) -> None:
        """Hand the place to who waits longest; it can make progress from this moment on."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._replay.branches(1)
                waiter.set_result(None)
                return
        self._free += 1
