"""Commands that look after a store: damage is named, this machine is examined, errors are explained."""

from __future__ import annotations

import errno
import inspect
import os
from pathlib import Path

import apsw
import pytest

from perdure import errors
from perdure.cli.health import _settings, wal_reset_bug
from tests.unit.cli.conftest import Command
from tests.unit.cli.stores import keep, kill_worker_of
from tests.unit.timeline.past import CRASHED


def flip_a_byte(store: Path, run_id: str, seq: int) -> None:
    """Change one byte of one stored event."""
    db = apsw.Connection(str(store))
    key = f"(SELECT run_no FROM perdure_run WHERE run_id = ?) << 32 | {seq}"
    [data] = db.execute(f"SELECT data FROM perdure_event WHERE key = {key}", (run_id,)).fetchone() or [b""]
    changed = data[:-1] + bytes([data[-1] ^ 1])
    db.execute(f"UPDATE perdure_event SET data = ? WHERE key = {key}", (changed, run_id))
    db.close()


def test_a_whole_store_is_whole(perdure: Command, store: Path) -> None:
    answer = perdure("verify")
    assert (answer.code, answer.out) == (0, "4 of 4 runs whole, 25 events checked\n")
    assert ", log 0 B" in perdure("stats").out  # at rest there is none
    document = perdure("verify", "nap", "--json").document
    assert document["ok"] is True
    assert document["runs"] == [
        {"run_id": "nap-7", "ok": True, "newer": False, "events": 2, "damage": None, "erased": False}
    ]


def test_damage_is_named_and_only_its_run_is_quarantined(perdure: Command, store: Path) -> None:
    flip_a_byte(store, "order-1042", 7)
    answer = perdure("verify")
    assert answer.code == 1
    assert answer.out.startswith("damaged  order-1042@7: ")
    assert "3 of 4 runs whole" in answer.out
    assert perdure("verify", "order-1043").code == 0
    document = perdure("verify", "order-1042", "--json").document
    assert (document["ok"], document["runs"][0]["damage"]["seq"]) == (False, 7)
    assert perdure("runs").code == 0
    shown = perdure("show", "order-1042")
    assert shown.code == 1
    assert "S107" in shown.err


def findings(perdure: Command) -> dict[str, dict[str, str]]:
    return {finding["about"]: finding for finding in perdure("doctor", "--json").document["findings"]}


def test_doctor_before_there_is_a_store(perdure: Command, place: Path) -> None:
    found = findings(perdure)
    assert found["store"]["level"] == "ok"
    assert "the first run makes it" in found["store"]["text"]
    assert "median" in found["fsync"]["text"]
    assert list(place.iterdir()) == []


def test_doctor_finds_what_needs_someone(perdure: Command, store: Path) -> None:
    keep(store, "dead-1", CRASHED[:7])
    kill_worker_of(store, "dead-1")
    found = findings(perdure)
    assert found["open runs"]["text"] == "1 held, 1 interrupted, 1 ready, 1 waiting"
    assert found["interrupted"]["text"] == "1 run, such as dead-1"
    assert found["held"]["remedy"] == "perdure why order-1043"
    assert "synchronous unknown until a writer opens it" in found["settings"]["text"]
    drawn = perdure("doctor")
    assert drawn.code == 0
    assert " ! interrupted  1 run, such as dead-1" in drawn.out


def test_doctor_where_it_may_not_write(
    perdure: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> object:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    found = findings(perdure)["fsync"]
    assert found["level"] == "warn"
    assert "cannot be written by this user" in found["text"]
    assert perdure("doctor").code == 0


def test_doctor_where_the_disk_fails(perdure: Command, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    assert findings(perdure)["fsync"]["level"] == "bad"
    assert perdure("doctor").code == 1


@pytest.mark.parametrize(("sync", "level"), [("1", "bad"), ("normal", "bad"), ("2", "ok"), ("EXTRA", "ok")])
def test_doctor_judges_what_the_store_read_back(sync: str, level: str) -> None:
    assert _settings({"synchronous": sync, "file": "x"}).level == level


def test_doctor_says_what_is_wrong_and_exits_with_1(perdure: Command, place: Path) -> None:
    (place / "perdure.db").write_text("not a store\n" * 100)
    answer = perdure("doctor")
    assert answer.code == 1
    assert "✗ store" in answer.out
    assert "S106" in answer.out
    missing = perdure("doctor", "--store", "nowhere/perdure.db")
    assert missing.code == 1
    assert "is not there" in missing.out


def test_doctor_calls_a_file_system_that_does_not_sync_by_its_name(
    perdure: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    found = findings(perdure)
    assert found["fsync"]["level"] == "warn"
    assert "may not survive a power cut" in found["fsync"]["text"]


@pytest.mark.parametrize(
    ("version", "bad"),
    [
        ("3.6.23", False),
        ("3.7.0", True),
        ("3.40.1", True),
        ("3.44.5", True),
        ("3.44.6", False),
        ("3.45.0", True),
        ("3.50.6", True),
        ("3.50.7", False),
        ("3.51.2", True),
        ("3.51.3", False),
        ("3.53.0", False),
        (apsw.sqlite_lib_version(), False),
    ],
)
def test_which_sqlite_has_the_wal_reset_bug(version: str, bad: bool) -> None:
    assert wal_reset_bug(version) is bad


CODES = list(errors.catalogue())


@pytest.mark.parametrize("kind", CODES, ids=[kind.code for kind in CODES])
def test_every_error_explains_itself(perdure: Command, kind: type[errors.PerdureError]) -> None:
    answer = perdure("explain", kind.code.lower())
    assert answer.code == 0
    assert answer.out.startswith(f"{kind.code}  {kind.__name__}")
    assert inspect.getdoc(kind) in answer.out  # type: ignore[operator]
    assert kind.default_safe in answer.out
    assert kind.default_remedy in answer.out


def test_explain_lists_all_and_knows_names(perdure: Command) -> None:
    assert len(perdure("explain").out.splitlines()) == len(CODES)
    [explained] = perdure("explain", "OutcomeUnknown", "--json").document["errors"]
    assert (explained["code"], explained["family"]) == ("T201", "CallError")


def test_an_unknown_code_is_told_with_its_neighbours(perdure: Command) -> None:
    answer = perdure("explain", "T999")
    assert answer.code == 3
    assert "T201" in answer.err
    assert perdure("explain", "Q1").code == 3
