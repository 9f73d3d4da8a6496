"""Servers that die under load, standbys that take over, and servers that must not be asked.

The full figures come from `make soak`; here each sweep is short. In a control the server acknowledges before
it has written, and the sweep must find that out.
"""

from __future__ import annotations

import pytest

from perdure.errors import StoreUnavailable
from perdure.store.postgres import PostgresStore
from perdure.store.protocol import Batch, Claim
from perdure.testing.contract.trial import events, new_run, refused
from tests.cluster import address, servers
from tests.crash.servers import failovers, kills

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.postgres]

SEED = 11


def test_a_server_that_is_killed_and_comes_back_costs_nothing() -> None:
    report = kills(3, SEED)
    print(report)
    assert report.offences == []
    assert len(report.resumed) == 3
    assert report.acknowledged > 100


def test_a_standby_that_takes_over_has_all_that_was_acknowledged() -> None:
    report = failovers(1, SEED)
    print(report)
    assert report.offences == []
    assert len(report.resumed) == 1


def test_control_commits_that_are_not_synced_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sweep on a server that acknowledges first and writes later, which perdure overrules."""
    monkeypatch.setattr("perdure.store.postgres.check_durable", lambda *_: False)
    report = kills(2, SEED, "synchronous_commit = off\nwal_writer_delay = 5s\n")
    assert any("was acknowledged and is not there" in what for what in report.offences), report.offences


def test_a_server_that_acknowledges_too_early_is_overruled() -> None:
    """The same server, and perdure as it is."""
    assert kills(1, SEED, "synchronous_commit = off\nwal_writer_delay = 5s\n").offences == []


async def test_a_replica_is_never_asked_and_is_refused_by_name() -> None:
    """A hot standby answers reads, and perdure decides nothing by them."""
    with servers("one", "two") as (primary, standby):
        primary.make().start()
        store = PostgresStore(address(primary))
        await store.open()
        await store.create(new_run())
        standby.standby_of(primary).start()
        primary.follow_in_sync(standby)
        for look in (False, True):
            with refused(StoreUnavailable) as errors:
                await PostgresStore(address(standby), look=look).open()
            assert "replica" in errors[0].remedy, errors[0]
        for order in ((standby, primary), (primary, standby)):  # in whatever order the hosts are named
            both = PostgresStore(address(*order))
            await both.open()
            assert (await both.row("r")).seq == 1
            await both.close()
        await _demoted(store)
        await store.close()


async def _demoted(store: PostgresStore) -> None:
    """A server that is read-only by now, under an open connection, is left; the write waits for another."""
    await store.claim(Claim("w", 60, run_id="r"))
    assert store._writer is not None
    await store.append(Batch("r", 1, 1, events(2, 2)))
    connection = store._writer._connection
    assert connection is not None
    connection.execute("SET default_transaction_read_only = on")
    assert (await store.append(Batch("r", 1, 2, events(3, 3)))).seq == 3
    assert connection.closed
