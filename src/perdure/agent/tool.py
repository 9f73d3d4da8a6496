"""Tools, models and facts: declared functions that a step makes durable by calling them.

A `Tool` decides by context what a call of it means: in a step it becomes a call of the run, in another body
it runs under that body's receipt, anywhere else it is an ordinary function. Keeps "a stricter act never hides
inside a weaker receipt". Knows no store, no journal and no agent.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import copy_context
from datetime import timedelta
from typing import Any, Concatenate, Generic, Never, ParamSpec, TypeVar, Unpack, cast, overload

from perdure.agent.declared import Declared, Kind, in_thread, within
from perdure.agent.fingerprint import fingerprint
from perdure.agent.options import (
    STRICTNESS,
    Changes,
    ModelOptions,
    Options,
    ToolOptions,
    chosen,
    made_options,
    selection,
)
from perdure.agent.parameters import origin_of
from perdure.agent.policy import Usage, is_a
from perdure.agent.schema import read_usage
from perdure.agent.scope import Call, Opener, call_scope, current_steps, step_scope
from perdure.agent.verdict import Done, NotDone, Unknown
from perdure.codec import Shape
from perdure.errors import BadDeclaration, BlockingTool, EffectRefused, NoRun, StricterInside, said_by
from perdure.state.events import Effect

P = ParamSpec("P")
V = ParamSpec("V")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
X = TypeVar("X")

_MODEL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


RESULT = "result"
"""The parameter in which an undo hook may take what the call came to, if its tool has none of that name."""


def _must_fit(hook: Declared, tool: Declared, role: str, *, may: frozenset[str] = frozenset()) -> None:
    """A hook takes the tool's parameters, and nothing else but `may`. Raises BadDeclaration."""
    wanted, found = set(tool.parameters.names), set(hook.parameters.names)
    missing, extra = sorted(wanted - found), sorted(found - wanted - may)
    if missing or extra:
        told = [f"lacks {', '.join(missing)}"] if missing else []
        told += [f"takes {', '.join(extra)}"] if extra else []
        raise BadDeclaration(
            f"{hook.origin}: the {role} hook of {tool.name} {' and '.join(told)}",
            where=hook.source,
            remedy=f"give it the tool's parameters: {', '.join(tool.parameters.names) or 'none'}",
        )


class Hook(Declared):
    """A function that belongs to a tool and takes its arguments: its reconcile hook."""

    def __init__(self, fn: Any, tool: Declared, role: str) -> None:
        super().__init__(fn, "hook", None)
        _must_fit(self, tool, role)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self._get(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it plainly, with its injection: hooks are testable alone."""
        return self.run_plainly(args, kwargs, call_scope.get(), "read")

    async def ask(self, call: Call, providers: Opener) -> object:
        """Run it as `call`, with that call's arguments."""
        try:
            thunk = self.thunk(call.args, await self.inject(call, providers))
            with within(call):
                if self.is_async:
                    return await thunk()
                context = copy_context()
                return await asyncio.get_running_loop().run_in_executor(None, context.run, in_thread, thunk)
        finally:
            await providers.call_ended(call)


class _Hooks:
    """The hooks of one declaration; a variant falls back on those of what it was made from."""

    __slots__ = ("reconcile", "rest", "undo")

    def __init__(self, rest: _Hooks | None = None) -> None:
        self.reconcile: Hook | None = None
        self.undo: Tool[..., Any] | None = None
        self.rest = rest

    def find(self, role: str) -> Any:
        """The hook of this role, or None."""
        own = getattr(self, role)
        return own if own is not None or self.rest is None else self.rest.find(role)


class Tool(Declared, Generic[P, R_co]):
    """A declared tool, model or fact. `kind` says which; `options` is everything that was declared.

    Made by `tool`, `model`, `fact`, an agent's decorators of the same names, and `replace`.
    """

    __name__: str
    options: Options
    model_name: str
    """The declared model's name; empty for tools and facts."""
    guarded: bool
    """Whether something about each call has to be asked: its premises, a person."""
    limited: bool
    """Whether a call may have to wait for its turn."""

    def __init__(
        self, fn: Any, kind: Kind, changes: Mapping[str, Any], *, base: Options, model_name: str = ""
    ) -> None:
        super().__init__(fn, kind, changes.get("name"))
        self.model_name = model_name
        self._hooks = _Hooks()
        self._settle(made_options(self, changes, base))
        functools.update_wrapper(
            cast(Any, self),
            self.fn,
            assigned=("__module__", "__name__", "__qualname__", "__doc__"),
            updated=(),
        )

    def _settle(self, options: Options) -> None:
        self.options = options
        effect = options.effect
        self._effect: Effect | None = None if callable(effect) else effect
        self._effect_takes = (
            selection(effect, self.parameters, "its effect function") if callable(effect) else None
        )
        approval = options.approval
        when = approval.when if approval else None
        self.guarded = bool(options.premises) or approval is not None
        self.limited = options.limit is not None or options.rate is not None
        self._when_takes = selection(when, self.parameters, "its Approval(when=)") if when else None
        if self.kind == "tool" and options.for_model and not _MODEL_NAME.fullmatch(self.name):
            raise BadDeclaration(
                f"{self.origin}: no model accepts {self.name!r} as a tool's name",
                where=self.source,
                remedy='name="..." of up to 64 letters, digits, _ and -; or for_model=False',
            )

    # ------------------------------------------------------------------------------------------------ calling

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it. In a step: as a call of the run; raises BlockingTool (T208) for a plain `def` tool.

        In another body: under its receipt; raises StricterInside (T209) if this class is stricter. Elsewhere:
        as an ordinary function; raises NoRun (T206) if it acts while a step executes in this process.
        """
        outer = call_scope.get()
        if outer is None:
            scope = step_scope.get()
            if scope is not None:
                if not self.is_async:
                    raise BlockingTool(
                        f"{self.name} is a plain def and was called directly in a step", where=self.source
                    )
                durable: Any = scope.invoke(self, self.parameters.bind(args, kwargs))
                return durable  # type: ignore[no-any-return]
        effect = self._effect
        if effect is None:
            effect = self.effect_of(self.parameters.split(args, kwargs)[0])
        if outer is not None:
            if STRICTNESS[effect] > STRICTNESS[outer.effect]:
                raise StricterInside(
                    f"{self.name} is {effect}; {outer.tool or 'the body'} around it is only {outer.effect}",
                    where=self.source,
                )
        elif effect != "read" and current_steps.active:
            raise NoRun(
                f"{self.name} ({effect}) was called outside the run while a step executes", where=self.source
            )
        return cast(R_co, self.run_plainly(args, kwargs, outer, effect, self.model_name))

    @overload
    def __get__(self, instance: None, owner: type, /) -> Tool[P, R_co]: ...
    @overload
    def __get__(
        self: Tool[Concatenate[X, V], T], instance: X, owner: type | None = None, /
    ) -> Tool[V, T]: ...
    def __get__(self, instance: Any, owner: Any = None, /) -> Any:
        return self._get(instance, owner)

    def effect_of(self, args: Mapping[str, Any]) -> Effect:
        """The effect class of a call with these arguments.

        Raises EffectRefused (T213) if its function cannot tell.
        """
        if self._effect is not None:
            return self._effect
        decide = self.options.effect
        assert callable(decide)
        try:
            effect = decide(**chosen(self._effect_takes, args))
        except Exception as error:
            raise EffectRefused(
                f"the effect function of {self.name} failed: {type(error).__name__}: {said_by(error)}",
                safe="The tool was not called.",
                remedy="let it return a class for every argument; irreversible where it cannot tell",
                where=self.source,
            ) from error
        if effect not in STRICTNESS:
            raise EffectRefused(
                f"the effect function of {self.name} returned {effect!r}",
                safe="The tool was not called.",
                remedy=f"one of {', '.join(STRICTNESS)}",
                where=self.source,
            )
        return effect

    def usage_of(self, reply: Any) -> Usage | None:
        """What a model's reply used, by the declared reader or by its shape; None if nothing says so."""
        if self.kind != "model":
            return None
        return (self.options.usage or read_usage)(reply)

    def needs_approval(self, args: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments needs a person's permission.

        What `when=` raises passes through.
        """
        approval = self.options.approval
        if approval is None:
            return False
        return approval.when is None or bool(approval.when(**chosen(self._when_takes, args)))

    # -------------------------------------------------------------------------------------------------- hooks

    @property
    def reconcile_hook(self) -> Hook | None:
        """The hook that finds out what became of an unknown call, bound like the tool."""
        return cast(Hook | None, self._hook("reconcile"))

    @property
    def undo_hook(self) -> Tool[..., Any] | None:
        """What undoes a done call, as a tool of its own, bound like this one."""
        return cast(Tool[..., Any] | None, self._hook("undo"))

    def _hook(self, role: str) -> Any:
        hook = self._hooks.find(role)
        return hook if hook is None or self.owner is None else hook.bound_to(self.owner)

    @overload
    def reconcile(
        self: Tool[P, Coroutine[Any, Any, T]], fn: Callable[V, Awaitable[Done[T] | NotDone | Unknown]]
    ) -> Callable[V, Awaitable[Done[T] | NotDone | Unknown]]: ...
    @overload
    def reconcile(
        self: Tool[P, T], fn: Callable[V, Awaitable[Done[T] | NotDone | Unknown]]
    ) -> Callable[V, Awaitable[Done[T] | NotDone | Unknown]]: ...
    @overload
    def reconcile(
        self: Tool[P, T], fn: Callable[V, Done[T] | NotDone | Unknown]
    ) -> Callable[V, Done[T] | NotDone | Unknown]: ...
    def reconcile(self, fn: Any) -> Any:
        """Declare how to find out what became of an unknown call: `Done(result)`, `NotDone()` or `Unknown()`.

        The hook takes the tool's parameters, and may have injected ones of its own. Raises BadDeclaration
        (C102).
        """
        return self._add_hook("reconcile", fn)

    def undo(self, fn: F) -> F:
        """Declare how a done call is undone, when its run is cancelled with `compensate=True`.

        It takes the tool's parameters, and in `result` what the call came to if it wants that. It is made as
        a durable call of its own, `idempotent`; a declared tool (`@perdure.tool(...)` below this decorator)
        keeps its own class, retries, timeout and reconcile hook. Raises BadDeclaration (C102).
        """
        if self._effect == "read":
            raise BadDeclaration(f"{self.origin} only reads: there is nothing to undo", where=self.source)
        undo: Tool[..., Any] = fn if isinstance(fn, Tool) else Tool(fn, "tool", _UNDO, base=Options())
        _must_fit(undo, self, "undo", may=frozenset({RESULT}))
        if undo.kind != "tool" or undo.options.approval is not None or undo.options.premises:
            raise BadDeclaration(
                f"{undo.origin}: an undo is a tool without approval and premises: it is asked for by whoever"
                " cancels",
                where=undo.source,
                remedy="declare it without approval= and premises=",
            )
        if undo.options.effect == "read":
            raise BadDeclaration(
                f"{undo.origin} only reads: it can undo nothing",
                where=undo.source,
                remedy='effect="idempotent", or the class that it has',
            )
        self._add_hook("undo", undo)
        return cast(F, undo)

    async def ask_hook(self, call: Call, providers: Opener) -> object:
        """Run the reconcile hook as `call` and give its answer; a plain `def` runs in a thread.

        What the hook raises passes through, `NotDone` and `Unknown` included.
        """
        hook = self.reconcile_hook
        assert hook is not None, "a tool without a reconcile hook was asked"
        return await hook.ask(call, providers)

    def _add_hook(self, role: str, fn: Any) -> Any:
        existing = getattr(self._hooks, role)
        if existing is not None:
            raise BadDeclaration(
                f"{self.origin} has a {role} hook already: {existing.origin}", where=self.source
            )
        hook = fn if role == "undo" else Hook(fn, self, role)
        setattr(self._hooks, role, hook)
        return hook

    # -------------------------------------------------------------------------------------------------- shape

    def replace(self, **changes: Unpack[Changes]) -> Tool[P, R_co]:
        """A variant with other options, for one agent.

        It is another tool than this one. Raises BadDeclaration (C102).
        """
        variant: Tool[P, R_co] = object.__new__(type(self))
        variant.__dict__.update(self.__dict__)
        name = changes.get("name")
        variant.name = self.name if name is None else name
        variant._declaration = object()
        variant._hooks = _Hooks(self._hooks)
        variant._settle(made_options(variant, changes, self.options))
        return variant

    @property
    def description(self) -> str:
        """What the docstring says, without its parameter section."""
        return self.parameters.told.text

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the parameters; injected ones are hidden.

        Raises BadDeclaration (C102) for unknown types.
        """
        return self.parameters.schema

    @property
    def result_shape(self) -> Shape[Any]:
        """The shape of the declared result. Raises BadDeclaration (C102) for unknown types."""
        return self.parameters.result

    @functools.cached_property
    def schema_digest(self) -> bytes:
        """A digest over the types of arguments and result: what of them is data, not what is only said."""
        return fingerprint(self.schema, self.result_shape.schema())

    @functools.cached_property
    def arguments_digest(self) -> bytes:
        """The same of its arguments alone."""
        return fingerprint(self.schema)

    @functools.cached_property
    def result_digest(self) -> bytes:
        """The same of its result alone."""
        return fingerprint(self.result_shape.schema())


_UNDO: ToolOptions = {"effect": "idempotent", "for_model": False}
"""What an undo is that was declared as a plain function."""


def tool(*bare: Never, **options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Declare a tool: `@perdure.tool(effect="irreversible", raises=[Refused])`.

    Without `effect` a tool is irreversible, the strictest class. `perdure.agent.options.Options` describes
    each option. The declared function stays an ordinary function where no run is in context. Raises
    BadDeclaration (C102).
    """
    if bare:  # written without parentheses, it is handed the function
        origin = origin_of(bare[0])
        raise BadDeclaration(
            f"{origin}: @tool is written with parentheses", where=origin.source, remedy="@tool(effect=...)"
        )

    def declare(fn: Callable[P, R]) -> Tool[P, R]:
        return Tool(fn, "tool", options, base=Options())

    return declare


def model(name: str, /, **options: Unpack[ModelOptions]) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Declare a function that calls the model `name`: `@perdure.model("gpt-5-mini", price=Price(0.25, 2.0))`.

    A model is `read` unless declared otherwise (one with hosted tools acts). `style="anthropic"`: an agent
    without a step offers it tools in the words of that API (`openai`, `anthropic`, `mcp`). Raises
    BadDeclaration (C102).
    """
    if not is_a(name, str) or not name:
        raise BadDeclaration(
            f"model({name!r}): the model's name is missing", remedy='@perdure.model("gpt-5-mini")'
        )

    def declare(fn: Callable[P, R]) -> Tool[P, R]:
        return Tool(fn, "model", options, base=Options(effect="read", for_model=False), model_name=name)

    return declare


def fact(
    *, fresh_for: timedelta, same: Callable[[Any], object] | None = None
) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Declare a fact: something read from outside on which acts may rest, true for `fresh_for`.

    `same` is a key function: two values with equal keys count as unchanged. Raises BadDeclaration (C102).
    """

    def declare(fn: Callable[P, R]) -> Tool[P, R]:
        given = {"fresh_for": fresh_for, "same": same}
        return Tool(fn, "fact", given, base=Options(effect="read", for_model=False))

    return declare
