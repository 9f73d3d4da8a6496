"""Injection: what providers may be, when they open and close, and how they are replaced."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from perdure.agent import Call, Providers, call_scope, current_call, override, use
from perdure.errors import BadDeclaration, ProviderFailed
from tests.unit.agent import scenes

CALL = Call("key")


class Book:
    """What happened, in order."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def kinds(self) -> list[Callable[..., Any]]:
        """One provider of each kind."""

        def plain() -> str:
            self.entries.append("open plain")
            return "plain"

        async def awaited() -> str:
            await asyncio.sleep(0)
            self.entries.append("open awaited")
            return "awaited"

        def generated() -> Iterator[str]:
            self.entries.append("open generated")
            yield "generated"
            self.entries.append("close generated")

        async def yielded() -> AsyncIterator[str]:
            await asyncio.sleep(0)
            self.entries.append("open yielded")
            yield "yielded"
            await asyncio.sleep(0)
            self.entries.append("close yielded")

        return [plain, awaited, generated, yielded]


async def test_each_kind_opens_once_and_closes_in_reverse() -> None:
    book = Book()
    kinds = book.kinds()
    async with Providers() as providers:
        for _ in range(2):
            values = [await providers.open(provider, CALL) for provider in kinds]
            assert values == ["plain", "awaited", "generated", "yielded"]
        assert book.entries == ["open plain", "open awaited", "open generated", "open yielded"]
        book.entries.clear()
    assert book.entries == ["close yielded", "close generated"]


async def test_concurrent_callers_share_one_opening() -> None:
    book = Book()
    yielded = book.kinds()[3]
    async with Providers() as providers:
        values = await asyncio.gather(*[providers.open(yielded, CALL) for _ in range(20)])
        assert values == ["yielded"] * 20
        assert book.entries == ["open yielded"]


async def test_a_cancelled_caller_takes_nothing_from_the_others() -> None:
    opening, gate = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[str]:
        opening.set()
        await gate.wait()
        yield "value"

    async with Providers() as providers:
        first = asyncio.create_task(providers.open(slow, CALL))
        second = asyncio.create_task(providers.open(slow, CALL))
        await opening.wait()
        first.cancel()
        await asyncio.wait([first])
        gate.set()
        assert await second == "value"


async def test_a_provider_is_closed_by_the_task_that_opened_it() -> None:
    tasks: list[asyncio.Task[Any] | None] = []

    async def scoped() -> AsyncIterator[None]:
        tasks.append(asyncio.current_task())
        yield
        tasks.append(asyncio.current_task())

    async with Providers() as providers:
        await asyncio.create_task(providers.open(scoped, CALL))
    assert tasks[0] is tasks[1]
    assert tasks[0] is not asyncio.current_task()


async def test_a_provider_does_not_run_under_the_call_that_needed_it_first() -> None:
    keys: list[str] = []

    async def shared() -> str:
        keys.append(current_call().key)
        return ""

    def plain() -> str:
        keys.append(current_call().key)
        return ""

    async with Providers() as providers:
        token = call_scope.set(Call("mine"))
        await providers.open(shared, call_scope.get() or CALL)
        await providers.open(plain, call_scope.get() or CALL)
        call_scope.reset(token)
        assert "mine" not in keys
    with scenes.body("read"):
        async with Providers() as providers:
            await providers.open(shared, CALL)
            await providers.open(plain, CALL)
    assert len(keys) == 4
    assert "outer" not in keys


async def test_a_provider_may_be_injected_into_a_provider() -> None:
    entries: list[str] = []

    async def pool() -> AsyncIterator[str]:
        entries.append("open pool")
        yield "pool"
        entries.append("close pool")

    async def client(pool: str = use(pool)) -> AsyncIterator[str]:
        entries.append("open client")
        yield f"client of {pool}"
        entries.append("close client")

    def plain(client: str = use(client)) -> str:
        return f"plain over {client}"

    async with Providers() as providers:
        assert await providers.open(plain, CALL) == "plain over client of pool"
        assert await providers.open(client, CALL) == "client of pool"
    assert entries == ["open pool", "open client", "close client", "close pool"]


async def test_a_provider_that_takes_call_is_opened_for_each_call() -> None:
    closed: list[str] = []

    async def session(call: Call) -> AsyncIterator[str]:
        yield f"session of {call.key}"
        closed.append(call.key)

    def client(session: str = use(session)) -> str:
        return f"client with {session}"

    first, second = Call("1"), Call("2")
    async with Providers() as providers:
        assert await providers.open(client, first) == "client with session of 1"
        assert await providers.open(client, first) == "client with session of 1"
        assert await providers.open(client, second) == "client with session of 2"
        await providers.call_ended(first)
        assert closed == ["1"]
        # An inner call has the outer one's key; what it opened ends with it, and with it only.
        inner = Call("2")
        await providers.open(session, inner)
        await providers.call_ended(inner)
        assert closed == ["1", "2"]
        assert await providers.open(client, second) == "client with session of 2"
    assert closed == ["1", "2", "2"]


def test_call_is_recognised_however_it_is_written() -> None:
    def text(call: Call) -> None: ...  # the annotation is text in this module
    def bare(call): ...  # type: ignore[no-untyped-def]

    text_of_package: Any = lambda who: None  # noqa: E731
    text_of_package.__annotations__ = {"who": "perdure.Call"}
    real: Any = lambda who: None  # noqa: E731
    real.__annotations__ = {"who": Call}
    for provider in (text, bare, text_of_package, real):
        use(provider)


def test_what_cannot_be_opened_is_refused_at_the_declaration() -> None:
    def wanting(number: int) -> int:
        return number

    with pytest.raises(BadDeclaration, match="'number'"):
        use(wanting)
    with pytest.raises(BadDeclaration, match="a function that makes the value"):
        use("client")  # type: ignore[call-overload]
    with pytest.raises(BadDeclaration, match="a function that makes the value"):
        use(use(lambda: 1))  # type: ignore[call-overload]
    use(functools.partial(wanting, number=3))
    use(dict)


@pytest.mark.parametrize("kind", ["plain", "awaited", "generated", "yielded"])
async def test_a_failure_reaches_every_caller_and_the_next_one_tries_again(kind: str) -> None:
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("refused")

    def plain() -> str:
        fail()
        return "value"

    async def awaited() -> str:
        await asyncio.sleep(0)
        fail()
        return "value"

    def generated() -> Iterator[str]:
        fail()
        yield "value"

    async def yielded() -> AsyncIterator[str]:
        await asyncio.sleep(0)
        fail()
        yield "value"

    provider = {"plain": plain, "awaited": awaited, "generated": generated, "yielded": yielded}[kind]
    async with Providers() as providers:
        with pytest.raises(ProviderFailed, match="ConnectionError: refused") as raised:
            await providers.open(provider, CALL)
        assert isinstance(raised.value.__cause__, ConnectionError)
        assert await providers.open(provider, CALL) == "value"


async def test_a_generator_yields_once() -> None:
    def none() -> Iterator[str]:
        yield from ()

    async def none_later() -> AsyncIterator[str]:
        for value in list[str]():
            yield value

    def twice() -> Iterator[str]:
        yield "a"
        yield "b"

    async def twice_later() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    async with Providers() as providers:
        for provider in (none, none_later):
            with pytest.raises(ProviderFailed, match="yielded nothing"):
                await providers.open(provider, CALL)
    for provider in (twice, twice_later):
        with pytest.raises(ProviderFailed, match="more than once"):
            async with Providers() as providers:
                assert await providers.open(provider, CALL) == "a"


async def test_an_error_in_closing_keeps_nothing_open() -> None:
    closed: list[str] = []

    async def good() -> AsyncIterator[str]:
        yield ""
        closed.append("good")

    async def bad() -> AsyncIterator[str]:
        yield ""
        raise ValueError("cannot close")

    def plain() -> Iterator[str]:
        yield ""
        closed.append("plain")

    with pytest.raises(ValueError, match="cannot close"):
        async with Providers() as providers:
            for provider in (good, bad, plain):
                await providers.open(provider, CALL)
    assert closed == ["plain", "good"]


async def test_what_is_still_opening_is_ended() -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncIterator[str]:
        try:
            await asyncio.Event().wait()
            yield ""
        finally:
            ended.set()

    async with Providers() as providers:
        caller = asyncio.create_task(providers.open(endless, CALL))
        await asyncio.sleep(0.01)
    assert ended.is_set()
    with pytest.raises(ProviderFailed):
        await caller


# ---------------------------------------------------------------------------------------------- threads


async def test_a_thread_gets_what_the_loop_opens() -> None:
    book = Book()
    yielded = book.kinds()[3]

    async def with_a_loop_of_its_own(providers: Providers) -> Any:
        return await providers.open(yielded, CALL)

    async with Providers() as providers:
        assert await asyncio.to_thread(providers.open_now, yielded, CALL) == "yielded"
        assert providers.open_now(yielded, CALL) == "yielded", "open already: no waiting"
        found = await asyncio.to_thread(lambda: asyncio.run(with_a_loop_of_its_own(providers)))
        assert found == "yielded"
    assert book.entries == ["open yielded", "close yielded"]


async def test_a_plain_function_on_the_loop_cannot_wait() -> None:
    plain, awaited, generated, _ = Book().kinds()
    async with Providers() as providers:
        assert providers.open_now(plain, CALL) == "plain"
        assert providers.open_now(generated, CALL) == "generated"
        with pytest.raises(ProviderFailed, match="asynchronous") as raised:
            providers.open_now(awaited, CALL)
        assert "async def" in raised.value.remedy


# ---------------------------------------------------------------------------------------------- override


def real() -> str:
    return "real"


def other() -> str:
    return "other"


async def _values(providers: Providers) -> list[Any]:
    return [await providers.open(real, CALL), await providers.open(other, CALL)]


async def test_overrides_nest() -> None:
    async with Providers() as providers:
        assert await _values(providers) == ["real", "other"]
        with override({real: "fake"}):
            assert await _values(providers) == ["fake", "other"]
            with override({other: None, real: real}):
                assert await _values(providers) == [real, None], "a fake is the value itself"
            assert await _values(providers) == ["fake", "other"]
        assert await _values(providers) == ["real", "other"], "a fake is not kept"


async def test_an_override_reaches_threads_and_tasks_that_were_there_before() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()
    start, found = threading.Event(), []

    async with Providers() as providers:

        async def earlier() -> list[Any]:
            await asked.wait()
            try:
                return await _values(providers)
            finally:
                answer.set()

        def thread() -> None:
            start.wait()
            found.append(providers.open_now(real, CALL))

        task = asyncio.create_task(earlier())
        worker = threading.Thread(target=thread)
        worker.start()
        with override({real: "fake"}):
            asked.set()
            await answer.wait()
            start.set()
            await asyncio.to_thread(worker.join)
        assert await task == ["fake", "other"]
        assert found == ["fake"]


async def test_a_task_keeps_the_override_in_which_it_began() -> None:
    left = asyncio.Event()
    async with Providers() as providers:

        async def outlives() -> list[Any]:
            await left.wait()
            return await _values(providers)

        with override({real: "fake"}):
            task = asyncio.create_task(outlives())
            await asyncio.sleep(0)
        left.set()
        assert await task == ["fake", "other"]
        assert await _values(providers) == ["real", "other"]


async def test_an_override_may_be_left_in_another_context() -> None:
    entered = override({real: "fake"})
    await asyncio.create_task(_in_a_task(entered.__enter__))
    async with Providers() as providers:
        assert await _values(providers) == ["fake", "other"]
        entered.__exit__(None, None, None)
        assert await _values(providers) == ["real", "other"]


async def test_leaving_an_override_hides_no_error() -> None:
    entered = override({real: "fake"})
    await asyncio.create_task(_in_a_task(entered.__enter__))
    error = ValueError("from inside")
    with pytest.raises(ValueError, match="from inside"):
        if not entered.__exit__(ValueError, error, None):
            raise error


async def _in_a_task(fn: Callable[[], object]) -> None:
    fn()


def test_only_providers_can_be_replaced() -> None:
    with pytest.raises(BadDeclaration):
        override({"client": "fake"})  # type: ignore[dict-item]
