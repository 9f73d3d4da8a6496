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
from typing import Any, TypeAlias

from msgspec import Struct

from perdure.errors import Signal, signal_in
from perdure.journal.outlast import outlast
from perdure.runtime.execution import Branch, Execution, as_error, branch_scope, here
from perdure.runtime.giving_up import gather_head, gave_up_gather, give_up, served

Work: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
"""What one branch does."""


class Ended(Struct, eq=False):
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
    flock = _Flock(execution, len(works), limit, joins=not given_up)
    branches = [Branch(f"{place}.{number}.", None) for number in range(len(works))]
    tasks = [
        asyncio.create_task(_branch(branch, work, flock), context=copy_context())
        for branch, work in zip(branches, works, strict=True)
    ]
    try:
        if given_up:
            call = execution.record.calls[place]
            await execution.given(parent, call.seq)
            await _drop(flock, branches, tasks)
            raise served(call)
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        await _drop(flock, branches, tasks)
        if (signal := _signal(tasks)) is not None:
            parent.unwinding = signal
        elif not execution.drive.stopping and not parent.given_up:
            give_up(execution, place, gather_head())
        raise
    except BaseException:
        await _drop(flock, branches, tasks)
        raise
    if (signal := _signal(tasks)) is not None:
        parent.unwinding = signal
        raise signal
    return [task.result() for task in tasks]


async def _drop(flock: _Flock, branches: list[Branch], tasks: list[asyncio.Task[Ended]]) -> None:
    """End what is still going on, and wait for its end; our own cancellation is known already."""
    going = [(branch, task) for branch, task in zip(branches, tasks, strict=True) if not task.done()]
    for branch, task in going:
        branch.given_up = True
        task.cancel()
    await outlast(*tasks)
    for branch, _ in going:
        if branch.task is None:  # it never began, so that it could not say that it has ended
            flock.ended()


def _signal(tasks: list[asyncio.Task[Ended]]) -> Signal | None:
    for task in tasks:
        if not task.cancelled() and task.exception() is None and isinstance(task.result().error, Signal):
            signal: Any = task.result().error
            return signal  # type: ignore[no-any-return]
    return None


async def _branch(branch: Branch, work: Work, flock: _Flock) -> Ended:
    branch.task = asyncio.current_task()
    branch_scope.set(branch)
    inside = False
    try:
        await flock.enter()
        inside = True
        value = await work()
        return Ended(value, branch.unwinding)
    except (Signal, Exception, asyncio.CancelledError, BaseExceptionGroup) as raised:
        found = branch.unwinding or signal_in(raised)
        if isinstance(found, BaseExceptionGroup) and not isinstance(found, Exception):
            raise
        return Ended(None, found)
    except SystemExit as ending:
        return Ended(None, branch.unwinding or as_error(ending))
    finally:
        if inside:
            flock.leave()
        flock.ended()


class _Flock:
    """The branches of one gather: at most `limit` of them inside, and the last one wakes their parent if it
    `joins` them. Who waits for a place is not active, and is let in beyond the limit if a replay needs it.
    """

    def __init__(self, execution: Execution, count: int, limit: int | None, *, joins: bool) -> None:
        self._replay = execution.replay
        self._left = count
        self._free = count if limit is None else limit
        self._joins = joins
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._replay.branch_out(count)
        if self._free < count:
            self._replay.door(self._let_in)

    async def enter(self) -> None:
        """Wait for a place, first come, first served."""
        if self._free > 0:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._replay.wait()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._replay.leave()
            else:
                self.leave()  # the place came together with the cancellation
            raise

    def leave(self) -> None:
        """Hand the place to who waits longest; it is active from this moment on."""
        self._free += 1
        if self._free > 0:
            self._let_in()

    def _let_in(self) -> bool:
        """Let in who waits longest, whether there is a place or not. False: nobody waits."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._free -= 1
                self._replay.leave()
                waiter.set_result(None)
                return True
        return False

    def ended(self) -> None:
        """One branch less."""
        self._left -= 1
        self._replay.ended(last=self._joins and not self._left)
