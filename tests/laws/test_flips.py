"""Law 21 for every kind of stored bytes, on both stores: no changed bit is served, only the hit run suffers.

`python -m soak flips` tries a thousand of them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure import codec
from perdure.journal import past, unpack_snapshot
from perdure.state.record import RunRecord
from perdure.store.protocol import RunRow, Snapshot
from tests.database import PLACE
from tests.laws.flips import PLACES, trial


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("where", PLACES)
def test_no_changed_bit_of_a_file_is_served(tmp_path: Path, where: str, seed: int) -> None:
    wrong = asyncio.run(trial(tmp_path / "runs.db", where, seed))
    assert wrong == [], f"{where}, seed {seed}"


@pytest.mark.parametrize("where", PLACES)
def test_no_changed_bit_of_a_database_is_served(tmp_path: Path, where: str) -> None:
    wrong = asyncio.run(trial(PLACE.at(tmp_path), where, 7))
    assert wrong == [], where


def _believing(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Take the check away that is to notice a change there."""
    if where.startswith("run"):

        def agreed(row: RunRow, record: RunRecord) -> str | None:
            return None

        monkeypatch.setattr(past, "misfit", agreed)
    else:
        unpack = unpack_snapshot

        def unchecked(snapshot: Snapshot) -> RunRecord:
            data = snapshot.data
            check = codec.digest(snapshot.digest, data[16:])
            return unpack(Snapshot(snapshot.seq, check + data[16:], snapshot.digest))

        monkeypatch.setattr(past, "unpack_snapshot", unchecked)


@pytest.mark.parametrize("where", ["run status", "run terminal", "snapshot data"])
def test_control_a_check_that_is_taken_away_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Otherwise the trials prove nothing."""
    _believing(monkeypatch, where)
    for seed in range(12):
        try:
            wrong = asyncio.run(trial(tmp_path / f"{seed}.db", where, seed))
        except Exception as error:  # noqa: BLE001  (nonsense that is believed shows in many ways)
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            print(f"noticed at seed {seed}: {wrong[0][:100]}")
            return
    pytest.fail("nobody noticed")
