"""Where a declared function is being called from: in a step, in another body, or alone.

The one seam between declarations and the runtime. The runtime sets these context variables and implements
`Scope`; a declared function only looks at them. Knows no store, no journal and no agent.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

from perdure.agent.policy import Principal
from perdure.clock import SYSTEM
from perdure.state.events import Effect


class Call(msgspec.Struct, frozen=True):
    """The call whose body is running.

    `key` is stable however often the call is sent; give it to the outside as its idempotency key. `path` is
    the call's place in its run, `attempt` counts from 1, `args` are its arguments by name. `model` is the
    declared model's name, empty for tools. `deadline` is in microseconds since the epoch, UTC. `tx` is the
    store's transaction for transactional tools. `effect` and `tool` are its class and name.
    """

    key: str
    run_id: str = ""
    path: str = ""
    attempt: int = 1
    args: Mapping[str, Any] = msgspec.field(default_factory=dict)
    model: str = ""
    principal: Principal | None = None
    deadline: int | None = None
    tx: Any = None
    effect: Effect = "irreversible"
    tool: str = ""


class Scope(Protocol):
    """A step that is executing: it makes calls durable."""

    @property
    def replaying(self) -> bool:
        """Whether the step hears again what it heard before, or is executed only to be compared."""
        ...

    def invoke(self, tool: Any, args: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        """Start one call of a `perdure.agent.tool.Tool` at the next place of the run.

        Raises CallError at once.
        """
        ...


class Opener(Protocol):
    """Whatever opens providers for injected parameters: `perdure.agent.injection.Providers`."""

    async def open(self, provider: Callable[..., Any], call: Call) -> Any:
        """The provider's value. Raises ProviderFailed (T215)."""
        ...

    def open_now(self, provider: Callable[..., Any], call: Call) -> Any:
        """The provider's value, for code that cannot await. Raises ProviderFailed (T215)."""
        ...

    async def call_ended(self, call: Call) -> None:
        """Close what was opened for this one Call object."""
        ...


class ActiveSteps:
    """How many steps execute in this process now. Safe from any thread: a list grows and shrinks at once."""

    def __init__(self) -> None:
        self._inside: list[None] = []

    @property
    def active(self) -> int:
        """How many."""
        return len(self._inside)

    def enter(self) -> None:
        """A step begins to execute."""
        self._inside.append(None)

    def leave(self) -> None:
        """A step has ended or unwound."""
        assert self._inside, "a step left that had not entered"
        self._inside.pop()


step_scope: ContextVar[Scope | None] = ContextVar("perdure_step", default=None)
"""The step in whose tasks this code runs. Set by the runtime."""

call_scope: ContextVar[Call | None] = ContextVar("perdure_call", default=None)
"""The call in whose body this code runs.

Set by the runtime, or by the declared function itself outside a run.
"""

providers_scope: ContextVar[Opener | None] = ContextVar("perdure_providers", default=None)
"""The opened providers of the Runtime in which this code runs."""

publisher: ContextVar[Callable[[object], None] | None] = ContextVar("perdure_publisher", default=None)
"""Where `publish` sends chunks."""

current_steps = ActiveSteps()
"""How many steps this process executes now."""


def current_call() -> Call:
    """The call whose body is running.

    Outside a run: a call with a fresh key, the same within one body's execution.
    """
    call = call_scope.get()
    return Call(key=SYSTEM.new_id()) if call is None else call


def publish(chunk: object) -> None:
    """Send a provisional piece of output to whoever follows the run. Does nothing where nobody listens."""
    send = publisher.get()
    if send is not None:
        send(chunk)
