"""Real workers: told to end, blocked, forked, and many of them on one key."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest

from perdure.runtime.leases import Leases
from perdure.state import events as e
from perdure.store import open_store
from perdure.store.sqlite import SQLiteStore
from perdure.testing.clock import MovableClock
from perdure.testing.contract.trial import new_run
from tests.cases.field import Field
from tests.database import new_database
from tests.processes import until
from tests.unit.worker.test_health import probe


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    """A folder for a program and its processes."""
    made = Field(tmp_path)
    yield made
    made.end()


PAYING = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.tool(effect="irreversible")
async def pay(n: int) -> str:
    book("paid", n)
    await opened("settle")
    return "paid"


@agent.step
async def step(run):
    await pay(1)
    await pay(2)
    run.finish("paid twice")


if __name__ == "__main__":
    async def main():
        async with Runtime(str(HERE / "runs.db"), [agent]) as runtime:
            await runtime.start(agent, "r", "go")
    asyncio.run(main())
"""


def started(field: Field) -> None:
    """The program has made its run."""
    field.program(PAYING)
    process = field.process("app.py")
    assert process.wait(30) == 0, process.communicate()


def told(process: object, word: str) -> None:
    """Wait until the worker has said a line with this word."""
    out = process.stdout  # type: ignore[attr-defined]
    while word not in (line := out.readline()):
        assert line, "it said nothing more"


async def test_a_worker_that_is_told_to_end_begins_no_call_and_lets_one_end(field: Field) -> None:
    """In the middle of a step of two calls: the first has its receipt, the second was not begun.

    Field case O-062.
    """
    started(field)
    worker = field.worker()
    until(lambda: field.lines("paid") == ["1"], worker)
    worker.send_signal(signal.SIGTERM)
    told(worker, "stopping")
    field.open("settle")
    said, complaint = worker.communicate(timeout=30)
    assert (worker.returncode, "left" in said) == (0, False), complaint
    assert field.lines("paid") == ["1"]
    row, record, _ = await field.told()
    assert (row.worker, row.terminal, record.step, row.claims) == (None, False, 0, 0)
    assert [call.standing for call in record.calls.values()] == ["done"]
    field.worker()
    assert await field.until_ended("r") == ["succeeded"]
    assert field.lines("paid") == ["1", "2"]


async def test_what_has_not_ended_in_time_is_named(field: Field) -> None:
    """With no grace: its intent stays, the exit code says so, and the next worker finds it unknown."""
    started(field)
    served = ("app.py:agent", "--store", str(field.store), "--grace", "0.1")
    worker = field.process("-m", "perdure", "worker", *served)
    until(lambda: field.lines("paid"), worker)
    worker.send_signal(signal.SIGINT)
    said, complaint = worker.communicate(timeout=30)
    assert worker.returncode == 6, complaint
    assert "left in the middle: run r: 1:0 pay (irreversible): the outcome is not known" in said
    _, record, _ = await field.told()
    assert record.calls["1:0"].standing == "unknown"


async def test_a_thread_of_a_call_that_was_cut_off_does_not_keep_the_process(field: Field) -> None:
    """The tool's own thread, which nobody can stop: another worker may drive the run by then."""
    field.program(PAYING.replace('await opened("settle")', "await asyncio.to_thread(time.sleep, 3600)"))
    assert field.process("app.py").wait(30) == 0
    served = ("app.py:agent", "--store", str(field.store), "--grace", "0.1")
    worker = field.process("-m", "perdure", "worker", *served)
    until(lambda: field.lines("paid"), worker)
    worker.send_signal(signal.SIGTERM)
    said, complaint = worker.communicate(timeout=30)
    assert worker.returncode == 6, complaint
    assert "left in the middle: run r: 1:0 pay (irreversible)" in said
    assert (await field.told())[0].worker is None


async def test_a_process_answers_probes_while_it_serves_and_drains(field: Field) -> None:
    """Probes that hang up leave no trace, and a port that is taken ends the second worker."""
    started(field)
    served = ("-m", "perdure", "worker", "app.py:agent", "--store", str(field.store))
    worker = field.process(*served, "--health", "127.0.0.1:0")
    assert worker.stdout is not None
    while not (line := worker.stdout.readline()).startswith("health at http://"):
        assert line, worker.communicate()
    address = line.removeprefix("health at http://").partition("/")[0]
    host, _, port = address.rpartition(":")
    until(lambda: field.lines("paid") == ["1"], worker)
    assert await asyncio.to_thread(probe, address, "/ready") == (200, ANY)
    for word in (b"", b"GET /li", b"GET /live HTTP/1.0\r\n\r\n"):
        with socket.create_connection((host, int(port))) as hasty:
            hasty.sendall(word)
            hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    second = field.process(*served, "--health", address)
    assert "nothing can listen" in second.communicate(timeout=30)[1]
    assert second.returncode == 2
    worker.send_signal(signal.SIGTERM)
    told(worker, "stopping")
    status, facts = await asyncio.to_thread(probe, address, "/ready")
    assert (status, facts["why"]) == (503, ["it drains"])
    assert (await asyncio.to_thread(probe, address, "/live"))[0] == 200
    field.open("settle")
    assert (worker.communicate(timeout=30)[1], worker.returncode) == ("", 0)


async def test_a_second_signal_ends_it_at_once(field: Field) -> None:
    started(field)
    worker = field.worker()
    until(lambda: field.lines("paid"), worker)
    worker.send_signal(signal.SIGTERM)
    told(worker, "stopping")
    worker.send_signal(signal.SIGTERM)
    _, complaint = worker.communicate(timeout=30)
    assert worker.returncode == 130
    assert "ended at once" in complaint
    assert [type(fact) for fact in (await field.told())[2]].count(e.CallIntended) == 1


BLOCKING = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.step
async def step(run):
    book("begun")
    while not is_open("go"):
        time.sleep(0.05)
    run.finish("done")


if __name__ == "__main__":
    async def main():
        stop = asyncio.Event()
        async with Runtime(sys.argv[1], [agent], workers=2, lease_seconds=1.5) as runtime:
            await runtime.start(agent, "r", "go")
            while not (await runtime.store.row("r")).terminal:
                await asyncio.sleep(0.05)
    asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_code_that_blocks_the_loop_loses_no_lease(field: Field, kind: str) -> None:
    """The lease moves on while the loop stands still, and the step is executed once. Field case O-046."""
    field.program(BLOCKING)
    url = str(field.store) if kind == "sqlite" else new_database()
    process = field.process("app.py", url)
    until(lambda: field.lines("begun"), process)
    store = open_store(url)
    await store.open()
    ends = set()
    for _ in range(1200):
        row = await store.row("r")
        assert (row.worker is not None, row.epoch) == (True, 1), "the lease ran out"
        ends.add(row.lease_until)
        if len(ends) == 4:
            break
        await asyncio.sleep(0.025)
    assert len(ends) == 4, "it was not renewed"
    field.open("go")
    _, complaint = process.communicate(timeout=30)
    assert process.returncode == 0, complaint
    row = await store.row("r")
    assert (row.status, row.epoch, len(field.lines("begun"))) == ("succeeded", 1, 1)
    await store.close()


KEYED = """
agent = Agent("agent", state=dict, start=lambda goal: {})


@agent.step
async def step(run):
    book("log", f"+{run.goal}")
    await asyncio.sleep(0.02)
    book("log", f"-{run.goal}")
    run.finish()


if __name__ == "__main__":
    async def main():
        async with Runtime(sys.argv[1], [agent], workers=int(sys.argv[2])) as runtime:
            if not int(sys.argv[2]):
                for n in range(36):
                    key = f"k{n % 3}"
                    await runtime.start(agent, f"r{n}", key, limit_key=key, key_limit=n % 3 + 1)
                return
            while any(not row.terminal for row in await runtime.store.list(Query(limit=100))):
                await asyncio.sleep(0.05)
    from perdure.store.protocol import Query
    asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_processes_together_pass_no_limit_of_a_key(field: Field, kind: str) -> None:
    """Three of them, 36 runs of three keys."""
    _together(field, KEYED, str(field.store) if kind == "sqlite" else new_database())


def test_control_processes_without_the_limit_pass_it(field: Field) -> None:
    unlimited = "from perdure.store.turns import Turns\nTurns.full = lambda self, key, most: False\n"
    with pytest.raises(AssertionError, match="Counter"):
        _together(field, unlimited + KEYED, str(field.store))


def _together(field: Field, program: str, url: str) -> None:
    """Every line of the log is one write."""
    field.program(program)
    assert field.process("app.py", url, "0").wait(30) == 0
    workers = [field.process("app.py", url, "8") for _ in range(3)]
    for worker in workers:
        _, complaint = worker.communicate(timeout=60)
        assert worker.returncode == 0, complaint
    inside: Counter[str] = Counter()
    for line in field.lines("log"):
        inside[line[1:]] += 1 if line[0] == "+" else -1
        assert all(inside[f"k{n}"] <= n + 1 for n in range(3)), inside
    assert len(field.lines("log")) == 72


def test_a_forked_child_is_another_incarnation_and_holds_nothing(tmp_path: Path) -> None:
    """Its parent keeps its lease and its name."""

    async def main() -> int:
        store = SQLiteStore(tmp_path / "runs.db")
        await store.open()
        leases = Leases(store, "w-parent", MovableClock(), 30.0)
        await store.create(new_run())
        leases.hold("r", 0.0, lambda: None)
        end, mouth = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(mouth, f"{leases.worker != 'w-parent'} {leases.held}".encode())
            os._exit(0)
        assert os.read(end, 100) == b"True 0"
        assert (leases.worker, leases.held) == ("w-parent", 1)
        await leases.close()
        await store.close()
        return child

    os.waitpid(asyncio.run(main()), 0)
