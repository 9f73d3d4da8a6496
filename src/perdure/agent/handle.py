"""What a step is handed: `Run`, as its authors see it and a type checker checks it.

Only the surface; the runtime implements it. Generic in state, goal and result, so that `Run[Desk]` in a
step's signature types `run.state` and `run.finish`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, overload

from perdure.agent.policy import Budget, Expiry, Patience, Principal
from perdure.agent.recovery import Recovery
from perdure.agent.tool import Tool
from perdure.codec import Shape

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    S = TypeVar("S", default=Any)
    G = TypeVar("G", default=Any)
    R = TypeVar("R", default=Any)
    T = TypeVar("T")
else:  # type variables with defaults are in the standard library from Python 3.13 on
    from typing import TypeVar

    S, G, R, T = TypeVar("S"), TypeVar("G"), TypeVar("R"), TypeVar("T")

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
X = TypeVar("X")
Y = TypeVar("Y")


class Spawnable(Protocol[X, Y]):
    """What a run can spawn: an agent, by the types of its goals and results."""

    @property
    def goal_shape(self) -> Shape[X]:
        """The shape of its goals."""
        ...

    @property
    def result_shape(self) -> Shape[Y]:
        """The shape of its results."""
        ...


class Run(ABC, Generic[S, G, R]):
    """The run, inside one execution of its step.

    Of no use after the step has ended (CallOutsideStep, T212).
    """

    id: str
    """The run's id."""

    log: logging.LoggerAdapter[logging.Logger]
    """A logger that names run and step, and is silent while recorded calls are served again."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _: Any) -> type:
            """`Run[Desk]` leaves out what has a default, which `Generic` of this Python cannot."""
            return cls

    # ------------------------------------------------------------------------------------------ what it knows

    @property
    @abstractmethod
    def state(self) -> S:
        """The live state. What has changed when the step returns is committed as a patch."""

    @state.setter
    @abstractmethod
    def state(self, value: S) -> None: ...

    @property
    @abstractmethod
    def goal(self) -> G:
        """What the run was started for."""

    @property
    @abstractmethod
    def principal(self) -> Principal | None:
        """On whose behalf the run acts."""

    @property
    @abstractmethod
    def recovery(self) -> Recovery:
        """What happened around the pauses before this step: what is done, unknown, changed. False if nothing.

        `str(run.recovery)` is a bounded note for a model.
        """

    # -------------------------------------------------------------------------------------------- how it ends

    @overload
    @abstractmethod
    def finish(self: Run[S, G, None]) -> None: ...
    @overload
    @abstractmethod
    def finish(self, result: R) -> None: ...
    @abstractmethod
    def finish(self, result: Any = None) -> None:
        """End the run as succeeded, once the step has returned and all its calls have settled."""

    @abstractmethod
    def fail(self, error: BaseException | str) -> None:
        """End the run as failed, once the step has returned."""

    # -------------------------------------------------------------------------------------------------- calls

    @overload
    @abstractmethod
    async def call(self, fn: Tool[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    @abstractmethod
    async def call(self, fn: Tool[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @abstractmethod
    async def call(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a declared call. A plain `def` tool runs in a thread."""

    @overload
    @abstractmethod
    async def gather(self, a: Awaitable[A], /) -> tuple[A]: ...
    @overload
    @abstractmethod
    async def gather(self, a: Awaitable[A], b: Awaitable[B], /) -> tuple[A, B]: ...
    @overload
    @abstractmethod
    async def gather(self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /) -> tuple[A, B, C]: ...
    @overload
    @abstractmethod
    async def gather(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], /
    ) -> tuple[A, B, C, D]: ...
    @overload
    @abstractmethod
    async def gather(self, *awaitables: Awaitable[T]) -> tuple[T, ...]: ...
    @abstractmethod
    async def gather(self, *awaitables: Awaitable[Any]) -> Any:
        """Await several at once, each on a branch of its own.

        The first exception is raised when all have ended.
        """

    @overload
    @abstractmethod
    async def map(
        self, fn: Callable[[A], Coroutine[Any, Any, B]], items: Iterable[A], *, limit: int = 10
    ) -> list[B]: ...
    @overload
    @abstractmethod
    async def map(self, fn: Callable[[A], B], items: Iterable[A], *, limit: int = 10) -> list[B]: ...
    @abstractmethod
    async def map(self, fn: Any, items: Iterable[Any], *, limit: int = 10) -> list[Any]:
        """Call `fn` for each item, at most `limit` at once. Results in the items' order."""

    @abstractmethod
    async def tools(self, tool_calls: Sequence[Any]) -> list[dict[str, Any]]:
        """Run a model's tool calls by name.

        One message for each, errors included; siblings go on when one fails.
        """

    # ----------------------------------------------------------------------------------------------- children

    @abstractmethod
    async def spawn(
        self,
        agent: Spawnable[X, Y],
        goal: X,
        *,
        budget: Budget | None = None,
        on_cancel: Literal["cancel", "wait"] = "cancel",
    ) -> Y:
        """Let another agent pursue a goal, as a run of its own, and wait for its result.

        The child's id is derived from this run's and the place of the call; this run's worker is free
        meanwhile. `budget`: the child's own limits. `on_cancel`: whether the child is cancelled with this
        run, or this run's end waits for the child's. Raises ChildFailed (T221) if the child fails or is
        cancelled.
        """

    # ---------------------------------------------------------------------------------------- time and chance

    @abstractmethod
    async def sleep(self, duration: timedelta | float) -> None:
        """Wait (seconds if a number).

        The worker is free meanwhile; a restart does not begin the wait anew.
        """

    @overload
    @abstractmethod
    async def wait(
        self, name: str, expected: type[A], *, timeout: Patience = None, expiry: Expiry = "raise"
    ) -> A: ...
    @overload
    @abstractmethod
    async def wait(self, name: str, expected: type[A], *, timeout: Patience = None, default: B) -> A | B: ...
    @overload
    @abstractmethod
    async def wait(
        self, name: str, expected: Any = ..., *, timeout: Patience = None, default: Any = ...
    ) -> Any: ...
    @abstractmethod
    async def wait(
        self,
        name: str,
        expected: Any = Any,
        *,
        timeout: Patience = None,
        expiry: Expiry = "raise",
        default: Any = ...,
    ) -> Any:
        """Wait for the next signal of this name, and return its payload, of the expected type.

        Signals that came before are kept, the oldest first; each is taken by one wait. `timeout`: None for
        the agent's `wait_limit`, FOREVER for none. At its end the wait raises WaitExpired (A411), or returns
        `default` where one is given, or False with `expiry="deny"`. Raises SignalUnfit (A417) for a payload
        of another type.
        """

    @overload
    @abstractmethod
    async def ask(self, question: str, *, expires: Patience = None) -> str: ...
    @overload
    @abstractmethod
    async def ask(
        self, question: str, expected: type[A], *, expires: Patience = None, expiry: Expiry = "raise"
    ) -> A: ...
    @overload
    @abstractmethod
    async def ask(
        self, question: str, expected: type[A], *, expires: Patience = None, default: B
    ) -> A | B: ...
    @overload
    @abstractmethod
    async def ask(self, question: str, *, choices: Sequence[A], expires: Patience = None) -> A: ...
    @overload
    @abstractmethod
    async def ask(
        self, question: str, *, choices: Sequence[A], expires: Patience = None, default: B
    ) -> A | B: ...
    @abstractmethod
    async def ask(
        self,
        question: str,
        expected: Any = str,
        *,
        choices: Sequence[Any] | None = None,
        expires: Patience = None,
        expiry: Expiry = "raise",
        default: Any = ...,
    ) -> Any:
        """Ask a person, and return the answer: one of the choices, or of the expected type.

        An answer that does not fit is refused, and the question stays open. `expires`, `expiry` and `default`
        as in `wait`.
        """

    @abstractmethod
    def now(self) -> datetime:
        """The moment, recorded: the same after a crash. Aware, UTC."""

    @abstractmethod
    def random(self) -> float:
        """A float in [0, 1), recorded."""

    @abstractmethod
    def new_id(self) -> str:
        """A new id, recorded. Not a secret."""

    @abstractmethod
    def since(self, marker: str) -> bool:
        """Whether this step began with the code that `marker` stands for: `if run.since("fraud-check"): ...`.

        False in a step that had got further than this place under older code, True in any other. Recorded:
        one answer in a step, however often it is executed again.
        """
