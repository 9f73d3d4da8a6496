"""What a step is handed: calls with stable paths, branches, sleep, now, finish.

And how one step is executed.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.agent import (
    Budget,
    Expiry,
    Patience,
    Principal,
    Run,
    Tool,
    ToolCall,
    call_scope,
    current_steps,
    read_tool_calls,
    step_scope,
    tool_message,
)
from perdure.agent.recovery import Recovery
from perdure.codec import Shape
from perdure.codec.redaction import redacted, refuse_leak
from perdure.errors import (
    BadArguments,
    CallOutsideStep,
    NotAwaited,
    NotStorable,
    PerdureError,
    ShapeMismatch,
    Signal,
    UnknownTool,
    said_by,
    signal_in,
)
from perdure.runtime import calls, children, markers, strays, waits
from perdure.runtime.birth import read_goal
from perdure.runtime.branches import Work, branch_out
from perdure.runtime.difference import Sides
from perdure.runtime.execution import Branch, Ending, Execution, Interrupted, as_error, branch_scope, here
from perdure.runtime.lineage import OnCancel
from perdure.runtime.recovered import recovery_of
from perdure.state import events as e

log = logging.getLogger("perdure.run")


class StepScope(Struct, eq=False):
    """The run in context: a declared function called in a step becomes a durable call."""

    execution: Execution

    @property
    def replaying(self) -> bool:
        """Whether the step hears again what it heard before, or is executed only to be compared."""
        return self.execution.replay.retold or self.execution.checking

    def invoke(self, tool: Tool[..., Any], args: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        """The call, to be awaited; the step that forgets to is told so (`_all_awaited`)."""
        call = calls.perform(self.execution, tool, args)
        self.execution.called.append((tool.name, call))
        return call


class LiveRun(Run[Any, Any, Any]):
    """The handle of one execution of a step."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._drive = execution.drive
        self.id = self._drive.run_id

    # -- what the step reads

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:  # type: ignore[override]
        """A logger that names run and step, and is silent while recorded calls are served again."""
        step = self._execution.record.step + 1
        return _QuietReplay(log, {"run": self.id, "step": step}, self._execution)

    @property
    def state(self) -> Any:
        """The live state; what has changed when the step returns is committed."""
        if self._execution.over:
            self._usable()
        return self._execution.live.live

    @state.setter
    def state(self, value: Any) -> None:
        self._usable()
        self._execution.live.live = value

    @cached_property
    def goal(self) -> Any:
        """What the run was started for: each step has a copy of its own, as it would after a restart."""
        return read_goal(self._drive.agent, self._drive.record)

    @property
    def principal(self) -> Principal | None:
        """On whose behalf the run acts."""
        return self._drive.principal

    @cached_property
    def recovery(self) -> Recovery:
        """What happened around the pauses before this step."""
        return recovery_of(self._execution.record.interruption)

    # -- ends

    def finish(self, result: Any = None) -> None:
        """End the run as succeeded, when the step has returned."""
        self._usable()
        value = codec.encode(result, where="$.result")
        refuse_leak(value, "the run's result")
        self._drive.agent.result_shape.restore(codec.decode(value), where="$.result")
        self._execution.ending = Ending("succeeded", value)

    def fail(self, error: object) -> None:
        """End the run as failed, when the step has returned. `error` is an exception or a message."""
        self._usable()
        failure = error if isinstance(error, BaseException) else RuntimeError(str(error))
        self._execution.ending = Ending("failed", codec.encode(codec.encode_error(failure)))

    # -- calls

    async def call(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a declared call; a plain `def` tool runs in a thread."""
        tool = _declared(fn)
        return await self._perform(tool, tool.bind(args, kwargs))

    async def gather(self, *awaitables: Awaitable[Any]) -> Any:
        """Await several at once, each on a branch of its own.

        The first exception is raised when all have ended.
        """
        with _closed_at_the_end(awaitables):
            return tuple(await self._branches([_awaiting(item) for item in awaitables]))

    async def map(self, fn: Any, items: Iterable[Any], *, limit: int = 10) -> list[Any]:
        """Call `fn` for each item, at most `limit` at once; results in the items' order."""

        def one(item: Any) -> Work:
            async def work() -> Any:
                if isinstance(fn, Tool):
                    return await self._perform(fn, fn.bind((item,), {}))
                return await fn(item)

            return work

        return await self._branches([one(item) for item in items], limit)

    async def tools(self, tool_calls: Sequence[Any]) -> list[dict[str, Any]]:
        """Run a model's tool calls by name; one message for each, errors included.

        Siblings go on when one fails.
        """
        wanted = read_tool_calls(tool_calls)
        return await self._branches([self._answer(call) for call in wanted])

    def _answer(self, wanted: ToolCall) -> Work:
        async def work() -> dict[str, Any]:
            try:
                result = await self._by_name(wanted)
            except PerdureError as error:
                return tool_message(wanted, _for_model(error), error=True)
            except Exception as error:  # noqa: BLE001  (the model reads whatever a tool raised)
                return tool_message(wanted, redacted(f"{type(error).__name__}: {said_by(error)}"), error=True)
            return tool_message(wanted, _text(result), error=False)

        return work

    async def _by_name(self, wanted: ToolCall) -> Any:
        tool = self._drive.agent.tools.get(wanted.name)
        if tool is None or not tool.options.for_model:
            names = ", ".join(sorted(t.name for t in self._drive.agent.tools.values() if t.options.for_model))
            raise UnknownTool(f"there is no tool {wanted.name!r:.80}; the tools are: {names or 'none'}")
        if not isinstance(wanted.arguments, dict):
            raise BadArguments(
                f"the arguments of {wanted.name} are not a JSON object with each key once:"
                f" {wanted.arguments!r:.200}"
            )
        return await self._perform(tool, tool.parse(wanted.arguments))

    async def _perform(self, tool: Tool[..., Any], args: dict[str, Any]) -> Any:
        self._usable()
        return await calls.perform(self._execution, tool, args)

    async def _branches(self, works: Sequence[Work], limit: int | None = None) -> list[Any]:
        """The works' values, once all have ended; the first error is raised then."""
        self._usable()
        ended = await branch_out(self._execution, works, limit)
        for one in ended:
            if one.error is not None:
                raise one.error
        return [one.value for one in ended]

    # -- children

    async def spawn(
        self,
        agent: Any,
        goal: Any,
        *,
        budget: Budget | None = None,
        on_cancel: OnCancel = "cancel",
    ) -> Any:
        """A child run's result, once it has ended."""
        self._usable()
        return await children.spawn(self._execution, children.Spawning(agent, goal, budget, on_cancel))

    # -- time and chance

    async def sleep(self, duration: timedelta | float) -> None:
        """Wait for a duration (seconds if a number); the worker is free meanwhile.

        And a restart does not begin it anew.
        """
        self._usable()
        await waits.sleep(self._execution, duration)

    async def wait(
        self,
        name: str,
        expected: Any = Any,
        *,
        timeout: Patience = None,
        expiry: Expiry = "raise",
        default: Any = waits.NO_DEFAULT,
    ) -> Any:
        """The payload of the next signal of this name."""
        self._usable()
        asked = waits.Asked(name, Shape.of(expected), timeout, expiry, default)
        return await waits.signalled(self._execution, asked)

    async def ask(
        self,
        question: str,
        expected: Any = str,
        *,
        choices: Sequence[Any] | None = None,
        expires: Patience = None,
        expiry: Expiry = "raise",
        default: Any = waits.NO_DEFAULT,
    ) -> Any:
        """A person's answer to a question."""
        self._usable()
        only = None if choices is None else tuple(choices)
        asked = waits.Asked(question, Shape.of(expected), expires, expiry, default, only)
        return await waits.answered(self._execution, asked)

    def now(self) -> datetime:
        """The moment, recorded: the same after a crash. Aware, UTC."""
        return datetime.fromtimestamp(0, UTC) + timedelta(
            microseconds=self._drawn("run.now", self._clock_now)
        )

    def random(self) -> float:
        """A float in [0, 1), recorded."""
        return float(self._drawn("run.random", self._drive.host.clock.random))

    def new_id(self) -> str:
        """A new id, recorded."""
        return str(self._drawn("run.new_id", self._drive.host.clock.new_id))

    def since(self, marker: str) -> bool:
        """Whether this step began with the code that the marker stands for."""
        self._usable()
        if self._drive.stopping:
            raise asyncio.CancelledError
        return markers.since(self._execution, here(self._execution), marker)

    def _clock_now(self) -> int:
        return self._drive.host.clock.now()

    def _drawn(self, name: str, draw: Callable[[], Any]) -> Any:
        self._usable()
        execution, branch = self._execution, here(self._execution)
        path = branch.next_path()
        wait = execution.record.waits.get(path)
        if wait is not None:
            execution.diverge(branch, wait.seq, Sides(path, f"{wait.kind} {wait.name!r}", name))
        recorded = execution.record.calls.get(path)
        if recorded is not None:
            execution.replay.asked(path)
            if recorded.name != name:
                seq = recorded.intent or recorded.seq
                execution.diverge(branch, seq, Sides(path, recorded.name, name))
            execution.replay.passed(recorded.seq)
            return codec.decode(recorded.value)
        if execution.checking or execution.replay.over:  # else a rehearsal draws what it forgets again
            execution.only_live(branch, path, name)
        if self._drive.stopping:
            raise asyncio.CancelledError
        value = draw()
        head = e.CallHead(name, "read", (), codec.digest(name.encode()))
        self._drive.journal.append_soon(e.CallSettled(path, "done", codec.encode(value), head))
        return value

    def _usable(self) -> None:
        if self._execution.over:
            raise CallOutsideStep(f"run {self.id}: its step has ended")
        call = call_scope.get()
        if call is not None:
            raise CallOutsideStep(f"run {self.id}: its handle was used in the body of {call.tool}")


def _awaiting(item: Awaitable[Any]) -> Work:
    async def work() -> Any:
        return await item

    return work


@contextmanager
def _closed_at_the_end(awaitables: Iterable[Awaitable[Any]]) -> Iterator[None]:
    """Coroutines that were never begun are closed, so that Python does not complain of them."""
    try:
        yield
    finally:
        for item in awaitables:
            if inspect.iscoroutine(item):
                item.close()


def _declared(fn: Any) -> Tool[..., Any]:
    if not isinstance(fn, Tool):
        raise BadArguments(
            f"run.call takes a declared tool, model or fact, not {fn!r}",
            remedy="decorate it with @perdure.tool",
        )
    return fn


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    return json.dumps(codec.plain(result), default=str, ensure_ascii=False)


def _for_model(error: PerdureError) -> str:
    if isinstance(error, NotStorable | ShapeMismatch):  # a model that reads "error" tries again
        return f"the call was made and must not be made again, but its result is unusable: {error.what}"
    message = getattr(error, "message", None)
    kind = getattr(error, "type_name", None)
    return f"{kind}: {message}" if kind is not None and message is not None else error.what


class _QuietReplay(logging.LoggerAdapter[logging.Logger]):
    """Logs of a step, silent while recorded outcomes are served: they were said before."""

    def __init__(self, logger: logging.Logger, extra: dict[str, object], execution: Execution) -> None:
        super().__init__(logger, extra)
        self._execution = execution

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  (the name that logging calls)
        """Nothing is logged twice."""
        quiet = self._execution.replay.retold or self._execution.checking
        return not quiet and super().isEnabledFor(level)

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """The message with its arguments, and without the values of secrets."""
        if args and self.isEnabledFor(level):
            msg, args = (
                redacted(str(msg) % (args[0] if len(args) == 1 and isinstance(args[0], dict) else args)),
                (),
            )
        super().log(level, redacted(str(msg)), *args, **kwargs)

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        """Name the run and the step in front."""
        return f"{self.extra['run']} step {self.extra['step']}: {msg}" if self.extra else msg, kwargs


async def execute(execution: Execution, fn: Callable[[Any], Awaitable[None]]) -> None:
    """Run the step function once.

    Raises what it raises; Suspend when a branch is blocked, even if swallowed.
    """
    execution.task = asyncio.current_task()
    branch = Branch(execution.prefix, execution.task)
    outer_branch, outer_step = branch_scope.set(branch), step_scope.set(StepScope(execution))
    current_steps.enter()
    try:
        try:
            await fn(LiveRun(execution))
        finally:
            strays.look(sys.exception())
        if isinstance(branch.unwinding, Interrupted):
            raise branch.unwinding
        if branch.unwinding is not None:
            raise SwallowedSignal(str(branch.unwinding))
        _all_awaited(execution)
    except (Exception, BaseExceptionGroup) as error:
        if branch.unwinding is not None:  # answered by an error of the step's own: it unwinds all the same
            raise branch.unwinding from error
        if isinstance(found := signal_in(error), Signal):
            raise found from error
        raise
    except SystemExit as ending:  # a library's exit(2) ends this step, and not the runs beside it
        raise as_error(ending) from ending
    finally:
        execution.over = True
        current_steps.leave()
        branch_scope.reset(outer_branch)
        step_scope.reset(outer_step)


def _all_awaited(execution: Execution) -> None:
    """Python itself only warns of a call that was forgotten, and the run would go on without it."""
    forgotten: dict[str, None] = {}
    for name, call in execution.called:
        if getattr(call, "cr_frame", None) is not None and getcoroutinestate(call) == CORO_CREATED:
            forgotten[name] = None
    if not forgotten:
        return
    tools = tuple(forgotten)
    for _, call in execution.called:
        call.close()
    raise NotAwaited(f"the step has returned and not awaited what it called: {', '.join(tools)}", tools=tools)


class SwallowedSignal(Signal):
    """The step function returned although one of its branches had been told to unwind."""
