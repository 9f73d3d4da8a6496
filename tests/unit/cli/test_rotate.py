"""`perdure rotate`: a store under another key from the command line."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command
from tests.unit.cli.stores import keep
from tests.unit.timeline.past import RECONCILED

KEYS = [base64.b64encode(bytes([n]) * 32).decode() for n in range(3)]


@pytest.fixture
def path(place: Path) -> Path:
    """A store in the clear with one run."""
    keep(place / "perdure.db", "order-1", RECONCILED, status="succeeded", terminal=True)
    return place / "perdure.db"


def test_a_store_is_encrypted_rotated_and_decrypted(
    perdure: Command, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()
    monkeypatch.setenv("PERDURE_KEY", KEYS[1])
    told = perdure("rotate", "--dry-run", "--json").document
    assert (told["key"], told["done"], list(told["under"])) == (None, False, ["none"])
    assert path.read_bytes() == before
    values = told["under"]["none"]
    told = perdure("rotate", "--encrypt", "--json").document
    assert (told["done"], told["scrubbed"], told["written"]) == (True, True, values)
    first = told["key"]
    refused = perdure("show", "order-1")
    assert (refused.code, "K606" in refused.err) == (1, True)
    monkeypatch.setenv("PERDURE_STORE", "perdure.db?encrypt=on")
    assert perdure("show", "order-1").code == 0
    assert perdure("verify", "order-1").code == 0
    monkeypatch.setenv("PERDURE_KEY", f"{KEYS[2]},{KEYS[1]}")
    shown = perdure("rotate", "--dry-run")
    assert (shown.code, shown.out) == (0, f"{values} values lie under the key {first}\n")
    shown = perdure("rotate")
    assert shown.code == 0
    assert f"{values} values lay under the key {first}" in shown.out
    assert "the older ones may be taken out of PERDURE_KEY" in shown.out
    monkeypatch.setenv("PERDURE_KEY", KEYS[1])
    refused = perdure("rotate")
    assert (refused.code, "K603" in refused.err) == (1, True)
    monkeypatch.setenv("PERDURE_KEY", KEYS[2])
    assert perdure("show", "order-1").code == 0
    assert perdure("rotate", "--decrypt", "--json").document["key"] is None
    refused = perdure("show", "order-1")
    assert (refused.code, "K607" in refused.err) == (1, True)
    assert perdure("show", "order-1", "--store", "perdure.db").code == 0


def test_an_export_is_in_the_clear_and_comes_in_sealed(
    perdure: Command, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_KEY", KEYS[1])
    assert perdure("rotate", "--encrypt").code == 0
    assert perdure("export", "order-1", "out.perdure", "--store", "perdure.db?encrypt=on").code == 0
    monkeypatch.delenv("PERDURE_KEY")
    assert perdure("show", "order-1", "--store", "out.perdure").code == 0
    monkeypatch.setenv("PERDURE_KEY", KEYS[2])
    assert perdure("import", "out.perdure", "--store", "other.db?encrypt=on").code == 0
    assert perdure("verify", "order-1", "--store", "other.db?encrypt=on").code == 0
    stats = perdure("stats", "--store", "other.db?encrypt=on", "--json").document
    assert "encrypted" in str(stats)


def test_both_ways_at_once_are_refused(perdure: Command, path: Path) -> None:
    assert perdure("rotate", "--encrypt", "--decrypt").code == 2


def test_without_any_key_nothing_is_touched(
    perdure: Command, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERDURE_KEY", raising=False)
    before = path.read_bytes()
    refused = perdure("rotate", "--encrypt")
    assert (refused.code, "K603" in refused.err) == (1, True)
    assert path.read_bytes() == before
    assert perdure("rotate").code == 0, "there is nothing to do"
    assert perdure("rotate", "--store", "nowhere.db").code != 0
