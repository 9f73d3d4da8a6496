"""What a declared function needs and does not get from its caller: clients, connections, clocks.

`use(provider)` as a default value marks an injected parameter: hidden from schema and journal. `Providers`
opens each provider once and closes in reverse order; `override` replaces them in tests. Knows no tools and no
runs but the `Call` that a provider may ask for.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager, suppress
from typing import Any, Literal, Self, TypeAlias, TypeVar, overload

from msgspec import Struct

from perdure.agent.policy import is_a, is_callable
from perdure.agent.scope import Call, call_scope, step_scope
from perdure.errors import BadDeclaration, PerdureError, ProviderFailed, said_by

T = TypeVar("T")

Provider: TypeAlias = Callable[..., Any]
"""A function that makes what is injected."""


class Injected(Struct, frozen=True):
    """The mark that `use` leaves as a parameter's default."""

    provider: Provider


@overload
def use(provider: Callable[..., AsyncIterator[T]]) -> T: ...
@overload
def use(provider: Callable[..., Iterator[T]]) -> T: ...
@overload
def use(provider: Callable[..., Coroutine[Any, Any, T]]) -> T: ...
@overload
def use(provider: Callable[..., T]) -> T: ...
def use(provider: Provider) -> Any:
    """Inject what `provider` gives: `async def refund(order_id: str, bank: Client = use(bank_client))`.

    A provider is a function, a coroutine function, or a generator of one value (plain or async) that is
    closed at the end. It is opened once per Runtime; one that takes a parameter annotated `Call` is opened
    for each call. Its own parameters may be injected too. Plain functions and generators run on the event
    loop's thread. Raises BadDeclaration (C102).
    """
    recipe_of(provider)
    return Injected(provider)


# ---------------------------------------------------------------------------------------------------- recipes


class Recipe(Struct, frozen=True):
    """How a provider is opened: its kind, the parameters it takes, and whether it is opened for each call."""

    kind: Literal["plain", "coroutine", "generator", "asyncgen"]
    needs: tuple[tuple[str, Provider], ...]
    call_parameter: str | None
    per_call: bool

    @property
    def awaits(self) -> bool:
        """Opening it needs an event loop."""
        return self.kind in ("coroutine", "asyncgen") or any(recipe_of(need).awaits for _, need in self.needs)


@functools.lru_cache(maxsize=4096)
def recipe_of(provider: Provider) -> Recipe:
    """Read a provider's signature.

    Raises BadDeclaration (C102) for one that cannot be opened without arguments.
    """
    if is_a(provider, Injected) or not is_callable(provider):
        raise BadDeclaration(
            f"use({provider!r}): a provider is a function that makes the value",
            remedy="use(make_client) with def make_client(): ...; a ready value: use(lambda: client)",
        )
    needs: list[tuple[str, Provider]] = []
    call_parameter: str | None = None
    for parameter in _parameters(provider):
        if isinstance(parameter.default, Injected):
            needs.append((parameter.name, parameter.default.provider))
        elif _takes_call(provider, parameter):
            call_parameter = parameter.name
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise BadDeclaration(
                f"use({_name(provider)}): nothing can be given to its parameter {parameter.name!r}",
                remedy="it takes nothing, a parameter annotated Call, or parameters injected with use()",
            )
    per_call = call_parameter is not None or any(recipe_of(need).per_call for _, need in needs)
    return Recipe(_kind(provider), tuple(needs), call_parameter, per_call)


def _parameters(provider: Provider) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(provider).parameters.values())
    except (TypeError, ValueError):
        return []  # a builtin without a signature is called with nothing


def _takes_call(provider: Provider, parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name == "call" and parameter.default is parameter.empty
    if isinstance(annotation, str):
        return annotation.strip().rpartition(".")[2] == "Call"
    return annotation is Call


def _kind(provider: Provider) -> Literal["plain", "coroutine", "generator", "asyncgen"]:
    inner = provider
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isroutine(inner) and not inspect.isclass(inner):
        inner = type(inner).__call__
    if inspect.isasyncgenfunction(inner):
        return "asyncgen"
    if inspect.iscoroutinefunction(inner):
        return "coroutine"
    return "generator" if inspect.isgeneratorfunction(inner) else "plain"


def _name(provider: Provider) -> str:
    return str(getattr(provider, "__qualname__", None) or repr(provider))


# --------------------------------------------------------------------------------------------------- override

_MISSING = object()
_in_context: contextvars.ContextVar[tuple[Mapping[Provider, Any], ...]] = contextvars.ContextVar(
    "perdure_override", default=()
)
_in_process: list[Mapping[Provider, Any]] = []
_in_process_lock = threading.Lock()


def override(fakes: Mapping[Provider, Any]) -> AbstractContextManager[None]:
    """Within the block, each provider gives the fake beside it instead of being opened. Blocks nest.

    Reaches everything that runs inside the block, and threads and tasks of this process that were there
    before. The fake is the value itself, never called. Raises BadDeclaration (C102) for a key that is no
    provider.
    """
    for provider in fakes:
        recipe_of(provider)
    return _overriding(dict(fakes))


@contextmanager
def _overriding(fakes: Mapping[Provider, Any]) -> Iterator[None]:
    token = _in_context.set((*_in_context.get(), fakes))
    with _in_process_lock:
        _in_process.append(fakes)
    try:
        yield
    finally:
        with _in_process_lock:
            del _in_process[next(i for i, entry in enumerate(_in_process) if entry is fakes)]
        # A ValueError: left in another context than entered in, as async fixtures do; this one never had it.
        with suppress(ValueError):
            _in_context.reset(token)


def _fake_of(provider: Provider) -> Any:
    for fakes in reversed(_in_context.get()):
        if provider in fakes:
            return fakes[provider]
    if _in_process:
        with _in_process_lock:
            layers = _in_process[::-1]
        for fakes in layers:
            if provider in fakes:
                return fakes[provider]
    return _MISSING


# ---------------------------------------------------------------------------------------------------- opening


class _Opening(Struct, eq=False):
    """One provider being opened, open, or closing."""

    provider: Provider
    value: Any = _MISSING
    generator: Any = None
    opened: asyncio.Future[Any] | None = None
    close: asyncio.Event | None = None
    keeper: asyncio.Task[None] | None = None


class _Shelf(Struct, eq=False):
    """What is open together and closes together, in reverse order."""

    by_provider: dict[Provider, _Opening] = {}
    in_order: list[_Opening] = []
    call: Call | None = None


class Providers:
    """Opens each provider once, when first needed; closes all in reverse order when the block ends.

    `async with Providers() as providers`. One event loop; concurrent openings of one provider wait for each
    other. Each asynchronous provider lives in a task of its own, so that it is closed by the task that opened
    it and a cancelled caller does not take the others' value away.
    """

    def __init__(self) -> None:
        self._shared = _Shelf()
        # By the identity of the Call object: a body's inner calls have its key and place, and end earlier.
        self._by_call: dict[int, _Shelf] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = contextvars.copy_context()
        # A provider is shared: it must not run under the call that happened to need it first.
        self._context.run(call_scope.set, None)
        self._context.run(step_scope.set, None)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self, provider: Provider, call: Call) -> Any:
        """The provider's value; opened now if it was not. Raises ProviderFailed (T215)."""
        assert self._loop is not None, "providers are entered before they are opened"
        if not _runs_here(self._loop):  # a tool's thread with an event loop of its own
            return await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(self.open(provider, call), self._loop)
            )
        opening = self._begin(provider, call)
        if opening.value is not _MISSING:
            return opening.value
        recipe = recipe_of(provider)
        if not recipe.awaits:
            return self._open_inline(opening, recipe, call)
        if opening.opened is None:
            opening.opened = self._loop.create_future()
            opening.opened.add_done_callback(_seen)
            opening.close = asyncio.Event()
            opening.keeper = self._loop.create_task(
                self._keep(opening, recipe, call), context=self._context.copy()
            )
        return await asyncio.shield(opening.opened)

    def open_now(self, provider: Provider, call: Call) -> Any:
        """The provider's value, for a plain function: from any thread, or where opening it needs no waiting.

        Raises ProviderFailed (T215), also when an asynchronous provider would have to be opened on the loop's
        thread.
        """
        if self._loop is not None and not _runs_here(self._loop):
            return asyncio.run_coroutine_threadsafe(self.open(provider, call), self._loop).result()
        opening = self._begin(provider, call)
        if opening.value is not _MISSING:
            return opening.value
        recipe = recipe_of(provider)
        if recipe.awaits:
            raise ProviderFailed(
                f"provider {_name(provider)} is asynchronous; a plain function on the loop's thread needs it",
                remedy="declare the tool async def, or make the provider a plain function",
            )
        return self._open_inline(opening, recipe, call)

    async def call_ended(self, call: Call) -> None:
        """Close what was opened for this one Call object only."""
        shelf = self._by_call.pop(id(call), None)
        if shelf is not None:
            await _close([shelf])

    async def close(self) -> None:
        """Close everything, in reverse order. An error keeps nothing open and is raised at the end."""
        await _close(self._taken())

    def close_now(self) -> None:
        """Close everything that was opened without waiting; for code that has no event loop of its own."""
        with ExitStack() as stack:
            for shelf in self._taken():
                for opening in shelf.in_order:
                    stack.callback(_finish, opening)

    # ---------------------------------------------------------------------------------------------------- how

    def _taken(self) -> list[_Shelf]:
        """Everything that is open, to be closed from the end."""
        shelves = [self._shared, *self._by_call.values()]
        self._shared, self._by_call = _Shelf(), {}
        return shelves

    def _begin(self, provider: Provider, call: Call) -> _Opening:
        fake = _fake_of(provider)
        if fake is not _MISSING:
            return _Opening(provider, value=fake)
        shelf = self._shelf(recipe_of(provider), call)
        opening = shelf.by_provider.get(provider)
        if opening is None:
            opening = shelf.by_provider[provider] = _Opening(provider)
        return opening

    def _shelf(self, recipe: Recipe, call: Call) -> _Shelf:
        if not recipe.per_call:
            return self._shared
        return self._by_call.setdefault(id(call), _Shelf(call=call))

    def _open_inline(self, opening: _Opening, recipe: Recipe, call: Call) -> Any:
        needs = {name: self.open_now(need, call) for name, need in recipe.needs}
        if recipe.call_parameter:
            needs[recipe.call_parameter] = call
        try:
            value = self._context.copy().run(opening.provider, **needs)
            if recipe.kind == "generator":
                opening.generator = value
                value = self._context.copy().run(next, opening.generator)
        except Exception as error:
            raise _failed(opening.provider, error) from error
        opening.value = value
        self._shelf(recipe, call).in_order.append(opening)
        return value

    async def _keep(self, opening: _Opening, recipe: Recipe, call: Call) -> None:
        """The life of one asynchronous provider, in one task: open, hand over, wait, close."""
        assert opening.opened is not None
        assert opening.close is not None
        shelf = self._shelf(recipe, call)
        try:
            needs = {name: await self.open(need, call) for name, need in recipe.needs}
            if recipe.call_parameter:
                needs[recipe.call_parameter] = call
            value = opening.provider(**needs)
            if recipe.kind == "asyncgen":
                opening.generator = value
                value = await anext(opening.generator)
            elif recipe.kind == "coroutine":
                value = await value
            elif recipe.kind == "generator":
                opening.generator = value
                value = next(opening.generator)
        except BaseException as error:
            shelf.by_provider.pop(opening.provider, None)
            if not opening.opened.done():
                opening.opened.set_exception(_failed(opening.provider, error))
            if not isinstance(error, Exception):
                raise
            return
        opening.value = value
        shelf.in_order.append(opening)
        if not opening.opened.done():
            opening.opened.set_result(value)
        try:
            await opening.close.wait()
        finally:
            if recipe.kind == "asyncgen":
                await _afinish(opening)
            else:
                _finish(opening)


async def _close(shelves: list[_Shelf]) -> None:
    opening = [entry for shelf in shelves for entry in shelf.by_provider.values() if entry.value is _MISSING]
    keepers = [entry.keeper for entry in opening if entry.keeper is not None]
    for keeper in keepers:
        keeper.cancel()
    if keepers:
        await asyncio.wait(keepers)
    async with AsyncExitStack() as stack:
        for shelf in shelves:
            for entry in shelf.in_order:
                stack.push_async_callback(_close_one, entry)


async def _close_one(opening: _Opening) -> None:
    if opening.keeper is None:
        _finish(opening)
        return
    assert opening.close is not None
    opening.close.set()
    await opening.keeper


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _seen(opened: asyncio.Future[Any]) -> None:
    """Keep a failure from being reported as never retrieved when every caller was cancelled meanwhile."""
    if not opened.cancelled():
        opened.exception()


def _failed(provider: Provider, error: BaseException) -> PerdureError:
    if isinstance(error, ProviderFailed):
        return error
    told = "it yielded nothing" if isinstance(error, StopIteration | StopAsyncIteration) else said_by(error)
    failed = ProviderFailed(
        f"provider {_name(provider)} could not be opened: {type(error).__name__}: {told}",
        provider=_name(provider),
        type_name=type(error).__name__,
    )
    failed.__cause__ = error
    return failed


def _finish(opening: _Opening) -> None:
    if opening.generator is None:
        return
    try:
        next(opening.generator)
    except StopIteration:
        return
    opening.generator.close()
    raise ProviderFailed(
        f"provider {_name(opening.provider)} yielded more than once", safe="Its first value was used."
    )


async def _afinish(opening: _Opening) -> None:
    try:
        await anext(opening.generator)
    except StopAsyncIteration:
        return
    await opening.generator.aclose()
    raise ProviderFailed(
        f"provider {_name(opening.provider)} yielded more than once", safe="Its first value was used."
    )
