"""An agent: its name and types, what it may call, its step, and the policies of its runs.

A declaration and nothing more: it holds no run and opens no store. `run` goes through `door`, which the
runtime fills when it is loaded, so that this room never imports it.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Never,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    get_origin,
)

from perdure.agent.blocking import run_blocking
from perdure.agent.declared import is_coroutine_function
from perdure.agent.delegate import Delegate
from perdure.agent.handle import Run
from perdure.agent.options import ModelOptions, ToolOptions
from perdure.agent.outcome import Outcome
from perdure.agent.parameters import origin_of
from perdure.agent.placing import Placing
from perdure.agent.policy import (
    DEFAULT_STORAGE,
    DURABILITIES,
    Budget,
    Durability,
    Forever,
    Hybrid,
    Price,
    Principal,
    Retry,
    Storage,
    is_a,
)
from perdure.agent.schema import SchemaStyle, tool_schemas
from perdure.agent.scope import Call
from perdure.agent.tool import Tool, fact, model, tool
from perdure.codec import Shape
from perdure.errors import BadDeclaration, LoopRunning, NoRuntime
from perdure.recovery.deploys import DeployPolicy
from perdure.recovery.migrations import Chain, Migrate, Migration

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from perdure.store.protocol import Store

    S = DefaultTypeVar("S", default=dict[str, Any])
    G = DefaultTypeVar("G", default=str)
    R = DefaultTypeVar("R", default=Any)
else:
    S, G, R = TypeVar("S"), TypeVar("G"), TypeVar("R")

P = ParamSpec("P")
T = TypeVar("T")

Authorize = Callable[[Principal, Call], bool | Awaitable[bool]]
"""Whether this principal may make this call."""


class Policies(TypedDict, total=False):
    """Keyword options of an Agent; the class describes each."""

    budget: Budget | None
    prices: Mapping[str, Price]
    retry: Retry | None
    wait_limit: timedelta | Forever
    storage: Storage
    durability: Durability
    max_concurrency: int | None
    on_change: DeployPolicy
    limit: int | None


class Door(Protocol):
    """The way from a declared agent to whatever runs it."""

    async def run(
        self,
        agent: Agent[Any, Any, Any],
        run_id: str,
        goal: Any,
        *,
        principal: Principal | None,
        store: str | Store | None,
        check: bool | None,
        budget: Budget | None,
        placing: Placing,
    ) -> Outcome[Any]:
        """Start the run or carry it on, until it ends, waits or is held."""
        ...


door: Door | None = None
"""Set by the runtime when it is loaded."""


class Agent(Generic[S, G, R]):
    """A declared agent.

    `state`: the type of its state; without one a dict, {"messages": [...]}. `goal`: what runs are started
    with. `result`: what they finish with; plain data if none is given. `start`: makes the first state of a
    goal. `state_version`: raised when the state's shape changes, with a migration. `version`: of the code,
    for workers that serve several. `tools`: declared tools, models and facts. `spawns`: agents that it spawns
    with `run.spawn`, so that whoever serves it serves them.

    `budget`: the most that each run may use. `prices`: by model name, for models that declare none. `retry`:
    how a step that raised is tried again; None holds the run at once. `wait_limit`: the end of waits that
    declare none. `storage`, `durability`: how runs are kept, and what waits for the disk. `max_concurrency`:
    calls of one step in flight at once. `on_change`: what becomes of open runs when this code changes. Raises
    BadDeclaration (C102).
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _: Any) -> type:
            """`Agent[Desk]` leaves out what has a default, which `Generic` of this Python cannot."""
            return cls

    def __init__(
        self,
        name: str,
        *,
        state: type[S] | None = None,
        goal: type[G] | None = None,
        result: type[R] | None = None,
        start: Callable[[G], S] | None = None,
        state_version: int = 1,
        version: str = "1",
        tools: Sequence[Tool[..., Any]] = (),
        spawns: Sequence[Agent[Any, Any, Any]] = (),
        **policies: Unpack[Policies],
    ) -> None:
        self.name = name
        self.version = version
        self.state_version = state_version
        self.source = _declared_at()
        self.tools: dict[str, Tool[..., Any]] = {}
        self.models: dict[str, Tool[..., Any]] = {}
        self.facts: dict[str, Tool[..., Any]] = {}
        self.step_fn: Callable[[Run[S, G, R]], Awaitable[None]] | None = None
        self.migrations: dict[int, Migration] = {}
        self.authorize_fn: Authorize | None = None
        self.notices: dict[str, Tool[..., Any]] = {}  # they tell people of approvals
        self.spawns: list[Agent[Any, Any, Any]] = []
        self._listed: set[tuple[int, int]] = set()
        self._state: Any = dict[str, Any] if state is None else state
        self._goal: Any = str if goal is None else goal
        self._result: Any = Any if result is None else result
        self._start = self._starting(start, state)
        self._keep(policies)
        for entry in tools:
            self._register(entry)
        for agent in spawns:
            if not is_a(agent, Agent):
                raise self._bad(f"it spawns {agent!r}, which is no agent", "spawns=[researcher]")
            self.spawns.append(agent)

    def __repr__(self) -> str:
        return f"<agent {self.name} at {self.source}>"

    # -------------------------------------------------------------------------------------------------- types

    @cached_property
    def state_shape(self) -> Shape[S]:
        """The shape of the state. Raises BadDeclaration (C102) for a type that cannot be stored."""
        return Shape.of(self._state)

    @cached_property
    def goal_shape(self) -> Shape[G]:
        """The shape of goals. Raises BadDeclaration (C102) for a type that cannot be stored."""
        return Shape.of(self._goal)

    @cached_property
    def result_shape(self) -> Shape[R]:
        """The shape of results. Raises BadDeclaration (C102) for a type that cannot be stored."""
        return Shape.of(self._result)

    def first_state(self, goal: G) -> S:
        """The state in which a run of this goal begins."""
        return self._start(goal)

    def validate(self) -> None:
        """Resolve every type that was declared: of state, goal, result and tools. Raises BadDeclaration.

        Types may be defined after the declaration that names them, so this is for when all modules are
        loaded. Raises MigrationGap (M302) if the migrations skip a version.
        """
        for name in ("state_shape", "goal_shape", "result_shape"):
            try:
                getattr(self, name)
            except BadDeclaration as error:
                what = name.removesuffix("_shape")
                raise self._bad(f"its {what} cannot be stored: {error.what}", error.remedy) from error
        for entry in (*self.tools.values(), *self.models.values(), *self.facts.values()):
            if entry.unbound_in is not None:
                raise self._unbound(entry)
            _ = entry.schema, entry.result_shape
        self.chain.check()

    # --------------------------------------------------------------------------------------- what it may call

    def tool(self, *bare: Never, **options: Unpack[ToolOptions]) -> Callable[[Callable[P, T]], Tool[P, T]]:
        """Declare a tool and list it here: `perdure.tool`."""
        return self._listing(tool(*bare, **options))

    def model(self, name: str, /, **options: Unpack[ModelOptions]) -> Callable[[Callable[P, T]], Tool[P, T]]:
        """Declare a model and list it here: `perdure.model`."""
        return self._listing(model(name, **options))

    def fact(
        self, *, fresh_for: timedelta, same: Callable[[Any], object] | None = None
    ) -> Callable[[Callable[P, T]], Tool[P, T]]:
        """Declare a fact and list it here: `perdure.fact`."""
        return self._listing(fact(fresh_for=fresh_for, same=same))

    def lists(self, tool: Tool[..., Any]) -> bool:
        """Whether this very declaration, bound to this very object, is listed, also as a premise."""
        return (id(tool._declaration), id(tool.owner)) in self._listed

    def tool_named(self, name: str) -> Tool[..., Any] | None:
        """The tool, model or fact of this name, if one is listed; also one that tells people of approvals.

        An old name that `on_change` declares stands for today's.
        """
        return self._entry(name) or self._entry(self.on_change.renamed.get(name, ""))

    def _entry(self, name: str) -> Tool[..., Any] | None:
        listed = self.tools.get(name) or self.models.get(name) or self.facts.get(name)
        return listed or self.notices.get(name)

    def tool_schemas(self, style: SchemaStyle) -> list[dict[str, Any]]:
        """The tools that are offered to the model, as its API wants them.

        Raises BadSetting (C101) for another style.
        """
        return tool_schemas([entry for entry in self.tools.values() if entry.options.for_model], style)

    def _listing(
        self, declare: Callable[[Callable[P, T]], Tool[P, T]]
    ) -> Callable[[Callable[P, T]], Tool[P, T]]:
        def declare_and_list(fn: Callable[P, T]) -> Tool[P, T]:
            made = declare(fn)
            self._register(made)
            return made

        return declare_and_list

    def _register(self, entry: Any) -> None:
        if not isinstance(entry, Tool):
            name = getattr(entry, "__qualname__", None) or repr(entry)
            raise self._bad(
                f"it lists {name}, which is not declared", "decorate it with @perdure.tool(effect=...)"
            )
        self._unrivalled(entry)
        listed = {"tool": self.tools, "model": self.models, "fact": self.facts}[entry.kind]
        listed[entry.name] = entry
        self._listed.add(entry.identity)
        if isinstance(entry, Delegate):
            self.spawns.append(entry.agent)
        for premise in entry.options.premises:
            self._register(premise.fact)
        approval = entry.options.approval
        if approval is not None and isinstance(approval.notify, Tool):
            self.notices[approval.notify.name] = self._unrivalled(approval.notify)

    def _unrivalled(self, entry: Tool[..., Any]) -> Tool[..., Any]:
        """Refuse one that is bound to nothing, or whose name another one has here."""
        if entry.unbound_in is not None:
            raise self._unbound(entry)
        other = self._entry(entry.name)
        if other is not None and other != entry:
            raise self._bad(
                f"it lists two of the name {entry.name!r}: {other.origin} and {entry.origin}",
                f'list {entry.name}.replace(name="...") instead',
            )
        return entry

    def as_tool(
        self, name: str | None = None, description: str | None = None
    ) -> Tool[[G], Coroutine[Any, Any, R]]:
        """This agent as a tool of another one: `tools=[researcher.as_tool()]`. Each call is a child run.

        The model gives the goal and is given the result, or why there is none. Raises BadDeclaration (C102)
        for a name that no model accepts.
        """
        told = description or f"Let the agent {self.name} pursue a goal, and get its result."
        made: Tool[[G], Coroutine[Any, Any, R]] = Delegate(
            self, name or self.name, told, (self._goal, self._result)
        )
        return made

    # ------------------------------------------------------------------------------------------- what it does

    def step(
        self, fn: Callable[[Run[S, G, R]], Awaitable[None]]
    ) -> Callable[[Run[S, G, R]], Awaitable[None]]:
        """Declare the step: an `async def` that takes the run. Without one the agent is a plain tool loop."""
        origin = origin_of(fn)
        if self.step_fn is not None:
            raise self._bad(f"it has two steps: {origin_of(self.step_fn)} and {origin}")
        if not is_coroutine_function(fn):
            raise self._bad(f"its step {origin} is not async def", f"async def {origin.name}(run): ...")
        _check_takes(self, fn, 1, "step", "(run)")
        self.step_fn = fn
        return fn

    def migration(self, from_version: int, *, lossy: bool = False) -> Callable[[Migrate], Migrate]:
        """Declare how plain state of `from_version` becomes plain state of the version after it.

        `lossy`: it leaves something out, so that the state before it is kept for good.
        """
        if not 1 <= from_version < self.state_version:
            raise self._bad(
                f"a migration from version {from_version}, while its state_version is {self.state_version}",
                f"state_version={from_version + 1} or higher" if from_version >= 1 else "versions begin at 1",
            )

        def declare(fn: Migrate) -> Migrate:
            if from_version in self.migrations:
                first = origin_of(self.migrations[from_version].fn)
                raise self._bad(
                    f"it has two migrations from version {from_version}: {first} and {origin_of(fn)}"
                )
            if is_coroutine_function(fn):
                raise self._bad(
                    f"its migration {origin_of(fn)} is async; it computes and calls nothing", "def"
                )
            _check_takes(self, fn, 1, "migration", "(old)")
            self.migrations[from_version] = Migration(fn, lossy, origin_of(fn).source)
            return fn

        return declare

    @property
    def chain(self) -> Chain:
        """The migrations up to today's state version."""
        return Chain(self.name, self.state_version, self.migrations)

    def authorize(self, fn: Authorize) -> Authorize:
        """Declare who may make which call: `(who: Principal, call: Call) -> bool`, plain or async.

        Asked before each attempt of each call, reads and models too. Unless it gives True the call is not
        made and the run is held, `not-permitted`; so is a run without a principal. A plain function runs on
        the event loop.
        """
        if self.authorize_fn is not None:
            raise self._bad(
                f"it has two authorize functions: {origin_of(self.authorize_fn)} and {origin_of(fn)}"
            )
        _check_takes(self, fn, 2, "authorize function", "(who, call)")
        self.authorize_fn = fn
        return fn

    # --------------------------------------------------------------------------------------------- running it

    async def run(
        self,
        run_id: str,
        goal: G,
        *,
        principal: Principal | None = None,
        store: str | Store | None = None,
        check: bool | None = None,
        budget: Budget | None = None,
        **placing: Unpack[Placing],
    ) -> Outcome[R]:
        """Start the run, or carry it on, until it ends, waits or is held.

        `store`: a path or URL, PERDURE_STORE or ./perdure.db if not given. `check`: replay each step from its
        record and compare. `budget`: this run's own limits; in what it sets none, the agent's hold. The same
        id with another goal is refused (OtherGoal, R205), and so is another budget (OtherBudget, B505).
        `placing`: `queue`, `tags`, `priority`, `limit_key` and `key_limit` of a new run, see `Placing`.
        """
        if door is None:
            raise NoRuntime(f"agent {self.name} cannot run: perdure.runtime is not loaded")
        self.validate()
        return await door.run(
            self,
            run_id,
            goal,
            principal=principal,
            store=store,
            check=check,
            budget=budget,
            placing=placing,
        )

    def run_sync(
        self,
        run_id: str,
        goal: G,
        *,
        principal: Principal | None = None,
        store: str | Store | None = None,
        check: bool | None = None,
        budget: Budget | None = None,
        **placing: Unpack[Placing],
    ) -> Outcome[R]:
        """`run` for code that has no event loop. Raises LoopRunning (C105) where one is running.

        Ctrl+C leaves the run to be carried on later: the first one in order, the second at once.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run_blocking(
                self.run(
                    run_id, goal, principal=principal, store=store, check=check, budget=budget, **placing
                )
            )
        raise LoopRunning(f"run_sync of agent {self.name} was called in a running event loop")

    # ------------------------------------------------------------------------------------------------- checks

    def _keep(self, policies: Policies) -> None:
        known = Policies.__annotations__
        for name in policies:
            if name not in known:
                options = (*(Agent.__init__.__kwdefaults__ or ()), *sorted(known))
                raise self._bad(f"an agent has no option {name!r}", f"its options: {', '.join(options)}")
        self.budget = policies.get("budget")
        self.prices = dict(policies.get("prices", {}))
        self.retry = policies.get("retry")
        self.wait_limit: timedelta | Forever = policies.get("wait_limit", timedelta(days=7))
        self.storage: Storage = policies.get("storage", DEFAULT_STORAGE)
        self.durability: Durability = policies.get("durability", "effects")
        self.max_concurrency = policies.get("max_concurrency")
        self.on_change = policies.get("on_change", DeployPolicy())
        self.limit = policies.get("limit")
        if not is_a(self.name, str) or not 1 <= len(self.name) <= 200 or not self.name.isprintable():
            raise self._bad("an agent's name is 1 to 200 printable characters")
        if not is_a(self.version, str) or not _is_version(self.version):
            raise self._bad(f"version={self.version!r}: 1 to 100 characters, no space", 'version="2"')
        if not is_a(self.on_change, DeployPolicy):
            raise self._bad(f"on_change={self.on_change!r} is no DeployPolicy", "on_change=DeployPolicy(...)")
        if not is_a(self.state_version, int) or self.state_version < 1:
            raise self._bad(f"state_version={self.state_version!r}: versions are whole numbers from 1")
        if self.durability not in DURABILITIES:
            raise self._bad(f"durability={self.durability!r}", f"one of {', '.join(DURABILITIES)}")
        if self.storage not in ("log", "snapshot") and not isinstance(self.storage, Hybrid):
            raise self._bad(f"storage={self.storage!r}", '"log", "snapshot", Hybrid(every=20)')
        limit = self.wait_limit
        if not isinstance(limit, Forever) and (not is_a(limit, timedelta) or limit <= timedelta(0)):
            raise self._bad(f"wait_limit={limit!r} is neither a time longer than 0 nor FOREVER")
        if self.max_concurrency is not None and self.max_concurrency < 1:
            raise self._bad(f"max_concurrency={self.max_concurrency!r}: at least 1 call")
        if self.limit is not None and (not is_a(self.limit, int) or self.limit < 1):
            raise self._bad(f"limit={self.limit!r}: at least 1 run at once")
        for name, price in self.prices.items():
            if not is_a(price, Price):
                raise self._bad(f"the price of {name} is {price!r}", f"prices={{{name!r}: Price(0.25, 2.0)}}")

    def _starting(self, start: Any, state: Any) -> Callable[[G], S]:
        """How the first state is made, decided once."""
        if start is not None:
            if is_coroutine_function(start):
                raise self._bad("its start is async; it computes and calls nothing", "def start(goal): ...")
            _check_takes(self, start, 1, "start", "(goal)")
            made: Callable[[G], S] = start
            return made
        if state is None:
            if self._goal is not str:
                raise self._bad(
                    f"nothing says how its first state is made of a {_type_name(self._goal)}",
                    'start=lambda goal: {"messages": [...]}, or state=dict for a step of your own',
                )
            return _first_message
        required = _required(get_origin(state) or state)
        if required:
            raise self._bad(
                f"nothing says how its first state is made: {_type_name(state)} needs {', '.join(required)}",
                f"start=lambda goal: {_type_name(state)}(...), or defaults for its fields",
            )
        return lambda _goal: state()

    def _unbound(self, entry: Tool[..., Any]) -> BadDeclaration:
        owner = entry.unbound_in.__name__ if entry.unbound_in else "its class"
        return self._bad(
            f"it lists the method {entry.origin} of no {owner}", f"list it of an instance: x.{entry.name}"
        )

    def _bad(self, what: str, remedy: str | None = None) -> BadDeclaration:
        return BadDeclaration(f"agent {self.name}: {what}", where=self.source, remedy=remedy)


def families(agents: Iterable[Agent[Any, Any, Any]]) -> list[Agent[Any, Any, Any]]:
    """These agents and all that they spawn, and so on: each once, the nearest first.

    Raises BadDeclaration (C102) for what is no agent, and for two agents of one name: whose is a run?
    """
    found: dict[str, Agent[Any, Any, Any]] = {}
    left = list(agents)
    while left:
        agent = left.pop(0)
        if not is_a(agent, Agent):
            raise BadDeclaration(f"{agent!r} is no agent", remedy="name what Agent(...) has made")
        if agent.name not in found:
            found[agent.name] = agent
            left += agent.spawns
        elif found[agent.name] is not agent:
            raise BadDeclaration(
                f"two agents are called {agent.name!r}: the other is at {found[agent.name].source}",
                where=agent.source,
                remedy="give one of them another name",
            )
    return list(found.values())


def _is_version(text: str) -> bool:
    return 1 <= len(text) <= 100 and text.isprintable() and " " not in text


def _first_message(goal: Any) -> Any:
    return {"messages": [{"role": "user", "content": goal}]}


def _required(state: Any) -> list[str]:
    """What a type cannot be made without."""
    if isinstance(getattr(state, "__required_keys__", None), frozenset):
        # Python itself does not look into annotations that are text.
        return [name for name, said in state.__annotations__.items() if _is_required(state, name, said)]
    try:
        parameters = inspect.signature(state).parameters.values()
    except (TypeError, ValueError):
        return []  # a builtin: dict, list
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in stars]


def _is_required(state: Any, name: str, annotation: Any) -> bool:
    text = str(getattr(annotation, "__forward_arg__", annotation))
    if "NotRequired[" in text:
        return False
    return "Required[" in text or name in state.__required_keys__


def _check_takes(agent: Agent[Any, Any, Any], fn: Any, count: int, what: str, wanted: str) -> None:
    """Refuse a function that cannot be called with `count` positional arguments."""
    try:
        inspect.signature(fn).bind(*[None] * count)
    except TypeError:
        origin = origin_of(fn)
        raise BadDeclaration(
            f"agent {agent.name}: its {what} {origin} does not take {wanted}",
            where=origin.source,
            remedy=f"def {origin.name}{wanted}: ...",
        ) from None
    except ValueError:
        return  # a builtin whose signature cannot be read


def _type_name(kind: Any) -> str:
    return str(getattr(kind, "__name__", None) or kind)


def _declared_at() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("perdure.agent"):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
