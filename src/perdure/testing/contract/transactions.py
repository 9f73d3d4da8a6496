"""Promises about transactional calls: the user's tables and the run's events, together or not at all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from perdure.errors import (
    PerdureError,
    SeqConflict,
    StaleEpoch,
    StatementFailed,
    StatementRefused,
    TransactionTooLong,
)
from perdure.store.protocol import Batch, Stored, Tx
from perdure.testing.contract.trial import Promises, Trial, event, events, promise, refused

Act = Callable[[Tx], Sequence[Stored]]
"""What a batch carries as `act`."""


class TransactionPromises(Promises):
    """The user's own tables beside the run's events."""

    @promise
    async def test_a_transactional_call_commits_with_its_events(self, trial: Trial) -> None:
        if not self.transactional:
            return
        await _accounts(trial)

        def pay(tx: Tx) -> Sequence[Stored]:
            tx.execute("UPDATE account SET cents = cents - ? WHERE name = ?", (30, "ana"))
            tx.execute(
                "UPDATE account SET cents = cents + :cents WHERE name = :name", {"cents": 30, "name": "bo"}
            )
            return (event(4),)

        appended = await trial.store.append(Batch("r", 1, 2, events(3, 3), act=pay))
        assert appended.seq == 4
        assert await trial.store.read("r") == events(1, 4)
        assert await _balances(trial, 4) == [("ana", 70), ("bo", 30)]

    @promise
    async def test_a_failing_call_leaves_nothing_and_harms_no_neighbour(self, trial: Trial) -> None:
        if not self.transactional:
            return
        await _accounts(trial)
        await trial.lease("s")

        def fail(tx: Tx) -> Sequence[Stored]:
            tx.execute("UPDATE account SET cents = 0")
            raise ZeroDivisionError("the user's own")

        def rolls_back(tx: Tx) -> Sequence[Stored]:
            tx.execute("UPDATE account SET cents = 0")
            tx.execute("INSERT OR ROLLBACK INTO account VALUES ('ana', 1)")
            return ()

        def stops(_tx: Tx) -> Sequence[Stored]:
            raise StopIteration

        for act, kind in ((fail, ZeroDivisionError), (rolls_back, StatementFailed), (stops, RuntimeError)):
            after = (await trial.store.row("s")).seq
            futures = (
                trial.store.append(Batch("s", 1, after, events(after + 1, after + 1))),
                trial.store.append(Batch("r", 1, 2, events(3, 3), act=act)),
                trial.store.append(Batch("s", 1, after + 1, events(after + 2, after + 2))),
            )
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
            assert [type(outcome).__name__ for outcome in outcomes] == ["Appended", kind.__name__, "Appended"]
            assert (await trial.store.row("r")).seq == 2
        assert await _balances(trial, 2) == [("ana", 100), ("bo", 0)]

    @promise
    async def test_a_call_behind_a_failed_fence_is_not_made(self, trial: Trial) -> None:
        if not self.transactional:
            return
        await _accounts(trial)
        called = []

        def act(_tx: Tx) -> Sequence[Stored]:
            called.append(1)
            return ()

        with refused(StaleEpoch):
            await trial.store.append(Batch("r", 0, 2, act=act))
        with refused(SeqConflict):
            await trial.store.append(Batch("r", 1, 1, act=act))
        assert not called

    @promise
    async def test_events_of_a_call_must_go_on_from_its_batch(self, trial: Trial) -> None:
        if not self.transactional:
            return
        await _accounts(trial)
        with refused(SeqConflict):
            await trial.store.append(Batch("r", 1, 2, events(3, 3), act=lambda _tx: events(3, 3)))
        assert (await trial.store.row("r")).seq == 2

    @promise
    async def test_a_call_may_not_leave_its_transaction_or_touch_the_stores_tables(
        self, trial: Trial
    ) -> None:
        if not self.transactional:
            return
        await _accounts(trial)
        forbidden = (
            "COMMIT",
            "END",
            "ROLLBACK",
            "BEGIN",
            "SAVEPOINT mine",
            "RELEASE perdure_act",
            "PRAGMA user_version = 7",
            "PRAGMA synchronous = OFF",
            "ATTACH ':memory:' AS other",
            "DETACH main",
            "CREATE TABLE perdure_mine (a)",
            "CREATE TABLE PERDURE_mine (a)",
            "CREATE INDEX mine ON perdure_run (status)",
            "DROP TABLE perdure_event",
            "SELECT * FROM perdure_run",
            "DELETE FROM perdure_event",
            "UPDATE perdure_run SET epoch = 99",
            "SELECT 1; COMMIT",
        )
        for sql in forbidden:
            with refused(StatementRefused, StatementFailed):
                await trial.store.append(Batch("r", 1, 2, act=_statement(sql)))
            assert (await trial.store.row("r")).seq == 2
        assert await _balances(trial, 2) == [("ana", 100), ("bo", 0)]

    @promise
    async def test_a_refused_statement_does_not_spoil_the_call(self, trial: Trial) -> None:
        if not self.transactional:
            return
        await _accounts(trial)

        def act(tx: Tx) -> Sequence[Stored]:
            for wrong in ("COMMIT", "no such language", "INSERT INTO account VALUES ('ana', 1)"):
                with refused(StatementRefused, StatementFailed):
                    tx.execute(wrong)
            tx.execute("UPDATE account SET cents = 1")
            return ()

        await trial.store.append(Batch("r", 1, 2, act=act))
        assert await _balances(trial, 2) == [("ana", 1), ("bo", 1)]

    @promise
    async def test_a_call_has_a_time_limit(self, trial: Trial) -> None:
        if not self.transactional:
            return
        await _accounts(trial)
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

        def slow(tx: Tx) -> Sequence[Stored]:
            tx.execute("UPDATE account SET cents = 0")
            time.sleep(0.06)
            return ()

        for act in (_statement(endless), slow):
            with refused(TransactionTooLong):
                await trial.store.append(Batch("r", 1, 2, act=act, act_seconds=0.05))
        assert await _balances(trial, 2) == [("ana", 100), ("bo", 0)]

    @promise
    async def test_a_transaction_is_of_no_use_after_its_call(self, trial: Trial) -> None:
        if not self.transactional:
            return
        await _accounts(trial)
        kept: list[Tx] = []

        def act(tx: Tx) -> Sequence[Stored]:
            kept.append(tx)
            return ()

        await trial.store.append(Batch("r", 1, 2, act=act))
        errors: list[PerdureError]
        with refused(StatementRefused) as errors:
            kept[0].execute("UPDATE account SET cents = 0")
        assert "ended" in errors[0].what
        assert await _balances(trial, 2) == [("ana", 100), ("bo", 0)]


def _statement(sql: str) -> Act:
    def act(tx: Tx) -> Sequence[Stored]:
        tx.execute(sql)
        return ()

    return act


async def _accounts(trial: Trial) -> None:
    """A leased run at event 2, and a table of the user's with two accounts."""
    await trial.lease()

    def act(tx: Tx) -> Sequence[Stored]:
        tx.execute("CREATE TABLE account (name TEXT PRIMARY KEY, cents INTEGER NOT NULL)")
        tx.execute("INSERT INTO account VALUES ('ana', 100), ('bo', 0)")
        return (event(2),)

    await trial.store.append(Batch("r", 1, 1, act=act))


async def _balances(trial: Trial, seq: int) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []

    def act(tx: Tx) -> Sequence[Stored]:
        rows.extend(tx.execute("SELECT name, cents FROM account ORDER BY name"))
        return ()

    await trial.store.append(Batch("r", 1, seq, act=act))
    return rows
