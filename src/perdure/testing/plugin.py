"""What pytest gets from perdure: exported runs as regression tests.

Loaded by pytest when perdure is installed; it loads the rest of perdure only when a test asks for it. A
recorded run needs neither its store nor its outside: it is replayed from the file, and nothing is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from perdure.timeline.replayed import Replayed

ReplayRun: TypeAlias = "Callable[..., Replayed]"
"""What the fixture gives: call it with an exported file and the agent; see `perdure_replay`."""


@pytest.fixture
def perdure_replay(request: pytest.FixtureRequest) -> ReplayRun:
    """Fails the test at the first difference between an exported run and today's code.

    `perdure_replay(file, agent, *more, seconds=5.0)`: `file` as written by `perdure export`, sought beside
    the test and then in the working directory; `more`: agents of exported children. Returns what was found.
    """

    def replay_run(file: str | Path, *agents: Any, seconds: float = 5.0) -> Replayed:
        beside = request.path.parent / file
        path = beside if beside.is_file() else Path(file)
        with ThreadPoolExecutor(1) as thread:  # the test may have an event loop of its own
            found = thread.submit(lambda: asyncio.run(_replayed(path, agents, seconds))).result()
        if not found.ok:
            pytest.fail(found.told(), pytrace=False)
        return found

    return replay_run


async def _replayed(path: Path, agents: Any, seconds: float) -> Replayed:
    from perdure.clock import SYSTEM
    from perdure.timeline.bundle import shelf, unpacked
    from perdure.timeline.replays import replay

    bundle = unpacked(await asyncio.to_thread(path.read_bytes))
    return await replay(await shelf(bundle, str(path)), agents, SYSTEM, bundle.run_id, seconds=seconds)


def exported_runs(folder: str | Path, pattern: str = "*.perdure") -> list[Any]:
    """Every exported run in a folder, for `@pytest.mark.parametrize("file", exported_runs("tests/runs"))`.

    Raises pytest.UsageError if there is none: a test of nothing would always pass.
    """
    found = sorted(Path(folder).glob(pattern))
    if not found:
        raise pytest.UsageError(f"there is no exported run at {Path(folder) / pattern}")
    return [pytest.param(path.absolute(), id=path.stem) for path in found]
