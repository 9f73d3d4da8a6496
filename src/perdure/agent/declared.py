"""A function that perdure knows the whole of: where it stands, what it takes, how it is called.

The common half of tools and of the hooks that belong to them. Knows how to run a function by itself, outside
any run; knows nothing of effect classes, agents or journals.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import MethodType
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec.structs import replace

from perdure.agent.injection import Providers, recipe_of
from perdure.agent.parameters import Origin, Parameters, origin_of
from perdure.agent.scope import Call, Opener, call_scope, providers_scope
from perdure.clock import SYSTEM
from perdure.errors import BadDeclaration
from perdure.state.events import Effect

T = TypeVar("T")

Kind: TypeAlias = Literal["tool", "model", "fact", "hook"]
"""What a function was declared as."""


class Declared:
    """One function and what is known of it.

    Two are equal if they are the same declaration, bound to the same object.
    """

    name: str
    kind: Kind
    fn: Callable[..., Any]
    is_async: bool
    origin: Origin
    parameters: Parameters
    __wrapped__: Callable[..., Any]
    owner: object
    """What the function is bound to: the instance of a bound method, else None."""

    def __init__(self, fn: Any, kind: Kind, name: str | None) -> None:
        self._binds: Literal["instance", "class", "nothing"] = "instance"
        if isinstance(fn, staticmethod | classmethod):
            self._binds = "nothing" if isinstance(fn, staticmethod) else "class"
            fn = fn.__func__
        if isinstance(fn, Declared):
            raise BadDeclaration(
                f"{fn.origin} is declared already, as the {fn.kind} {fn.name}",
                where=fn.source,
                remedy=f"one decorator is enough; a variant: {fn.name}.replace(...)",
            )
        if inspect.isclass(fn) or not callable(fn):
            raise BadDeclaration(f"{fn!r} is not a function", remedy="declare a function or a method")
        self.kind = kind
        self.fn = self.__wrapped__ = fn
        self.origin = origin_of(fn)
        if _is_generator(fn):
            raise BadDeclaration(
                f"{self.origin} yields: a {kind} returns one value",
                where=self.origin.source,
                remedy="return a list; stream with perdure.publish(chunk)",
            )
        self.name = name if name is not None else self.origin.short
        self.is_async = is_coroutine_function(fn)
        self.parameters = Parameters(fn, self.origin)
        self.owner = None
        self._in_class: type | None = None
        self._bound_parameters: Parameters | None = None
        self._declaration: object = object()

    @property
    def source(self) -> str:
        """Where the function stands, `file:line`."""
        return self.origin.source

    @property
    def identity(self) -> tuple[int, int]:
        """Equal for the same declaration bound to the same object, in this process."""
        return (id(self._declaration), id(self.owner))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Declared):
            return NotImplemented
        return self._declaration is other._declaration and self.owner is other.owner

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} at {self.source}>"

    # ------------------------------------------------------------------------------------------------ methods

    def __set_name__(self, owner: type, name: str) -> None:
        self._in_class = owner

    @property
    def unbound_in(self) -> type | None:
        """The class whose method this is, while it is bound to no instance of it."""
        return self._in_class if self.owner is None and self._binds != "nothing" else None

    def bound_to(self, owner: object) -> Any:
        """The same declaration as a method of `owner`."""
        if self._bound_parameters is None:
            self._bound_parameters = self.parameters.without_first()
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound.fn = bound.__wrapped__ = MethodType(self.fn, owner)
        bound.owner = owner
        bound.parameters = self._bound_parameters
        return bound

    def _get(self, instance: object, owner: type | None) -> Any:
        if self._binds == "nothing" or self.owner is not None:
            return self
        if self._binds == "class":
            return self.bound_to(owner if owner is not None else type(instance))
        return self if instance is None else self.bound_to(instance)

    # ------------------------------------------------------------------------------------------------ calling

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Parameter name -> value, in signature order, defaults filled in, injected ones left out.

        Raises BadArguments (T204) on a misfit, and where an injected parameter is given.
        """
        return self.parameters.bind(args, kwargs)

    def restore(self, plain_args: Mapping[str, Any]) -> dict[str, Any]:
        """Typed arguments from plain data, as the journal keeps them.

        Raises BadArguments (T204) with `path`, `expected` and `found`.
        """
        return self.parameters.restore(plain_args)

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Typed arguments from a model's JSON, where text stands for dates, decimals and the like.

        Raises BadArguments (T204) with `path`, `expected` and `found`.
        """
        return self.parameters.parse(arguments)

    async def inject(self, call: Call, providers: Opener) -> dict[str, Any]:
        """The opened values of the injected parameters. Raises ProviderFailed (T215).

        After the body has ended, `await providers.call_ended(call)` closes what was opened for this call
        only.
        """
        return {
            name: await providers.open(provider, call) for name, provider in self.parameters.injected.items()
        }

    @property
    def opens_per_call(self) -> bool:
        """Whether any injected value is opened for each call, so that `call_ended` has something to close."""
        injected = self.parameters.injected
        return bool(injected) and any(recipe_of(provider).per_call for provider in injected.values())

    def thunk(self, args: Mapping[str, Any], injected: Mapping[str, Any]) -> Callable[[], Any]:
        """The call itself, ready to be made: returns a coroutine if the function is async."""
        positional, named = self.parameters.arguments(args, injected)
        return functools.partial(self.fn, *positional, **named)

    # -------------------------------------------------------------------------------------------------- alone

    def run_plainly(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        outer: Call | None,
        effect: Effect,
        model: str = "",
    ) -> Any:
        """Call the function as Python does, with its injection, recording nothing.

        Inside another body (`outer`) under that call's key; else as a call of its own with a fresh key.
        """
        values, given = self.parameters.split(args, kwargs)
        if outer is None:
            call = Call(SYSTEM.new_id(), args=values, model=model, effect=effect, tool=self.name)
        else:
            call = replace(outer, args=values, model=model or outer.model, tool=self.name)
        return self._run_async(call, values, given) if self.is_async else self._run_sync(call, values, given)

    async def _run_async(self, call: Call, values: dict[str, Any], given: dict[str, Any]) -> Any:
        wanted = self._wanted(given)
        if not wanted:
            with within(call):
                return await self.thunk(values, given)()
        providers = providers_scope.get()
        if providers is None:
            async with Providers() as own:
                # What the body calls shares its providers with it, as in a run.
                with _set(providers_scope, own):
                    return await self._opened(own, wanted, call, values, given)
        try:
            return await self._opened(providers, wanted, call, values, given)
        finally:
            await providers.call_ended(call)

    async def _opened(
        self,
        providers: Opener,
        wanted: Mapping[str, Any],
        call: Call,
        values: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> Any:
        injected = {name: await providers.open(provider, call) for name, provider in wanted.items()}
        with within(call):
            return await self.thunk(values, {**given, **injected})()

    def _run_sync(self, call: Call, values: dict[str, Any], given: dict[str, Any]) -> Any:
        wanted = self._wanted(given)
        with _opened_now(wanted, call) as injected, within(call):
            return self.thunk(values, {**given, **injected})()

    def _wanted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: provider for name, provider in self.parameters.injected.items() if name not in given}


def in_thread(thunk: Callable[[], T]) -> T:
    """Make a plain function's call in another thread: what it raises is then carried by a future.

    Futures do not carry StopIteration. As of a coroutine, it is an error: RuntimeError.
    """
    try:
        return thunk()
    except StopIteration as stop:
        raise RuntimeError("the function raised StopIteration") from stop


def within(call: Call) -> AbstractContextManager[None]:
    """Run the block as the body of this call."""
    return _set(call_scope, call)


@contextmanager
def _set(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def _opened_now(wanted: Mapping[str, Any], call: Call) -> Iterator[dict[str, Any]]:
    """Injected values for a plain function that is called alone or in another body."""
    shared = providers_scope.get()
    if not wanted:
        yield {}
    elif shared is not None:
        yield {name: shared.open_now(provider, call) for name, provider in wanted.items()}
    elif _loop_runs() or not any(recipe_of(provider).awaits for provider in wanted.values()):
        own = Providers()
        try:
            yield {name: own.open_now(provider, call) for name, provider in wanted.items()}
        finally:
            own.close_now()
    else:
        with asyncio.Runner() as runner:
            entered = runner.run(Providers().__aenter__())
            try:
                yield {name: runner.run(entered.open(provider, call)) for name, provider in wanted.items()}
            finally:
                runner.run(entered.close())


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_coroutine_function(fn: Any) -> bool:
    """Whether calling it gives a coroutine; looks through partials, wrappers and callable objects."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(inspect.unwrap(fn)):
        return True
    return not inspect.isroutine(fn) and inspect.iscoroutinefunction(type(fn).__call__)


def _is_generator(fn: Any) -> bool:
    while isinstance(fn, functools.partial):
        fn = fn.func
    inner = inspect.unwrap(fn)
    return inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)
