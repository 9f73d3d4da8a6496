"""perdure restore on the command line."""

from __future__ import annotations

from pathlib import Path

import apsw

from tests.laws.test_damage_laws import everything
from tests.unit.cli.conftest import Command


def test_a_backup_is_opened_with_every_open_run_held(perdure: Command, store: Path) -> None:
    connection = apsw.Connection(str(store))
    connection.execute("VACUUM INTO 'backup.db'")
    connection.close()
    before = everything(store.parent)
    answer = perdure("restore", "--store", "backup.db")
    assert (answer.code, "error[U714]" in answer.err) == (5, True)
    assert "3 open runs" in answer.err
    assert everything(store.parent) == before, "nobody could be asked: nothing was written"
    answer = perdure("restore", "--yes", "--store", "backup.db")
    assert answer.code == 0
    assert "3 open runs held, restored" in answer.out
    assert "perdure release --store backup.db" in answer.out
    runs = perdure("runs", "--json", "--store", "backup.db").document["runs"]
    assert {(run["run_id"], run["status"]) for run in runs} == {
        ("order-1042", "succeeded"),
        ("order-1043", "held"),
        ("nap-7", "held"),
        ("fresh-1", "held"),
    }
    assert "restored" in perdure("why", "nap-7", "--store", "backup.db").out
    assert perdure("verify", "--store", "backup.db").code == 0


def test_the_answer_for_a_program(perdure: Command, store: Path) -> None:
    told = perdure("restore", "--yes", "--json").document
    assert (sorted(told["held"]), told["damaged"], told["newer"]) == (
        ["fresh-1", "nap-7", "order-1043"],
        [],
        [],
    )
    assert perdure("restore", "--yes", "--store", "none.db").code != 0
