"""Behind a pooler in transaction mode: the contract holds, each transaction in whatever session is free."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.clock import Clock
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Claim
from perdure.testing.contract.leases import LeasePromises
from perdure.testing.contract.messages import MessagePromises
from perdure.testing.contract.transactions import TransactionPromises
from perdure.testing.contract.trial import new_run
from tests.database import PLACE
from tests.unit.store.cut import Pooler
from tests.unit.store.elsewhere import elsewhere
from tests.unit.store.test_postgres_tables import opened
from tests.unit.store.test_sqlite_workers import WORKER


@pytest.fixture
def pooler(tmp_path: Path) -> Iterator[Pooler]:
    """Three sessions for everybody, in front of an empty place."""
    between = Pooler(PLACE.at(tmp_path))
    yield between
    between.close()


class TestPooled(LeasePromises, MessagePromises, TransactionPromises):
    """One database behind a pooler."""

    @pytest.fixture(autouse=True)
    def _pooler(self, pooler: Pooler) -> None:
        self._url = pooler.url

    def new_store(self, folder: Path, clock: Clock) -> PostgresStore:
        return PostgresStore(self._url, clock=clock)


async def test_a_pooler_is_noticed_and_a_direct_way_gives_a_sign_of_life(
    pooler: Pooler, tmp_path: Path
) -> None:
    direct = PLACE.at(tmp_path)
    async with opened(pooler.url) as store:
        assert (await store.stats()).facts["pooled"] == "yes"
        await store.enlist("w0")
        assert "pooler" in (await store.stats()).facts["listening"]
        with elsewhere(direct, WORKER, "w1", 3600) as other:
            other.hear()
            assert await store.claim(Claim("w2", 30)) == ()
            other.kill()
        seen = 0
        while not (claimed := await store.claim(Claim("w2", 30))):
            seen = await store.changed(seen, 0.2)
        assert claimed[0].died, "the signs of others are seen through a pooler, too"


async def test_changes_are_seen_without_being_told(pooler: Pooler, tmp_path: Path) -> None:
    """No session, no notifications: the count of changes is looked at."""
    async with opened(pooler.url) as store, opened(PLACE.at(tmp_path)) as other:
        seen = await store.changed(0, 0)
        waiting = asyncio.ensure_future(store.changed(seen, 60))
        await asyncio.sleep(0.3)
        await other.create(new_run())
        assert await asyncio.wait_for(waiting, 30) != seen
