"""Running a tool's body as one attempt of a call: injected, within its timeout, and to its end.

What was begun is ended before anything is said of it: a coroutine is cancelled and awaited; a thread cannot
be cancelled, so it is waited for, and what it comes to then counts, late or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

from msgspec import Struct

from perdure.agent import Call, Tool, call_scope, publisher
from perdure.agent.declared import in_thread
from perdure.errors import ProviderFailed, Signal
from perdure.journal.outlast import outlast
from perdure.runtime import strays
from perdure.runtime.drive import Drive
from perdure.runtime.listening import Ears


class BodyEnd(Struct, eq=False):
    """How a body ended: with a result or an error.

    `called`: False if it was not even begun. `cancelled`: the cancellation that came meanwhile.
    """

    result: Any = None
    error: BaseException | None = None
    called: bool = True
    cancelled: asyncio.CancelledError | None = None


def run_body(drive: Drive, call: Call, tool: Tool[..., Any]) -> Coroutine[Any, Any, BodyEnd]:
    """Run the user's function as the call `call`.

    Raises CancelledError if it was cancelled and came to nothing.
    """
    return _run(drive, call, tool) if drive.ears is None else _heard(drive.ears, drive, call, tool)


async def _heard(ears: Ears, drive: Drive, call: Call, tool: Tool[..., Any]) -> BodyEnd:
    """The same, told to those who listen."""
    over = ears.acting(call, tool, "call")
    try:
        end = await _run(drive, call, tool)
    except BaseException as error:
        over(error)
        raise
    over(end.error)
    return end


async def _run(drive: Drive, call: Call, tool: Tool[..., Any]) -> BodyEnd:
    injects = tool.parameters.injected
    try:
        injected = await tool.inject(call, drive.host.providers) if injects else {}
    except ProviderFailed as error:
        return BodyEnd(error=error, called=False)
    thunk = tool.thunk(call.args, injected)
    timeout = tool.options.timeout
    token = call_scope.set(call)
    chunks = publisher.set(drive.publish)
    try:
        if tool.is_async and timeout is None:
            return await _here(thunk)
        if tool.is_async:
            work: asyncio.Future[Any] = asyncio.ensure_future(_here(thunk))
        else:
            loop, context = asyncio.get_running_loop(), copy_context()
            work = loop.run_in_executor(drive.host.threads, context.run, in_thread, strays.home(thunk))
        return await _within(work, timeout.total_seconds() if timeout is not None else None, tool)
    finally:
        call_scope.reset(token)
        publisher.reset(chunks)
        if drive.publish is not None and drive.publish.speaking:
            drive.publish.ended(call)
        if injects and tool.opens_per_call:
            await drive.host.providers.call_ended(call)


async def _here(thunk: Callable[[], Any]) -> BodyEnd:
    """In this very task: most calls are so, and a task costs tens of microseconds."""
    try:
        result = await thunk()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return BodyEnd(error=error)  # nobody cancelled: the body raised it by itself
    except (KeyboardInterrupt, GeneratorExit, Signal):
        raise
    except BaseException as error:  # noqa: BLE001  (whatever a tool raises becomes a fact)
        strays.look(error)
        return BodyEnd(error=error)  # a tool that asks for the process's end would end its neighbours as well
    strays.look()
    return BodyEnd(result)


async def _within(work: asyncio.Future[Any], seconds: float | None, tool: Tool[..., Any]) -> BodyEnd:
    """Await work for so long; then, or when cancelled, end it."""
    cancelled: asyncio.CancelledError | None = None
    try:
        await asyncio.wait([work], timeout=seconds)
    except asyncio.CancelledError as error:
        cancelled = error
    over_time = not work.done() and cancelled is None
    if not work.done():
        if tool.is_async:
            work.cancel()
        cancelled = await outlast(work) or cancelled
    if not work.cancelled():
        failure = work.exception()
        if failure is not None or not tool.is_async:
            return BodyEnd(None if failure is not None else work.result(), failure, cancelled=cancelled)
        end: BodyEnd = work.result()
        end.cancelled = cancelled
        return end
    if cancelled is not None:
        raise cancelled
    if over_time:
        return BodyEnd(error=TimeoutError(f"{tool.name} took longer than its timeout of {seconds:g} s"))
    return BodyEnd(error=asyncio.CancelledError(f"{tool.name} cancelled itself"))
