"""compact on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.laws.test_damage_laws import everything
from tests.unit.cli.conftest import Command


def test_compact_says_first_what_would_go_and_asks(perdure: Command, store: Path) -> None:
    before = everything(store.parent)
    told = perdure("compact", "order-1042", "--dry-run")
    assert (told.code, told.out.splitlines()[0].split(":")[0]) == (
        0,
        "order-1042 would begin after event 12",
    )
    assert everything(store.parent) == before
    answer = perdure("compact", "order-1042")
    assert (answer.code, "error[U713]" in answer.err) == (5, True)
    assert everything(store.parent) == before


def test_a_compacted_run_still_tells_its_state_and_what_it_did(perdure: Command, store: Path) -> None:
    state = perdure("state", "order-1042", "--json").document
    acts = perdure("audit", "order-1042", "--json").document["acts"]
    told = perdure("compact", "order-1042", "--yes", "--json").document
    [one] = told["runs"]
    assert (one["floor"], told["unreadable"]) == (12, [])
    assert one["events_removed"] > 0
    assert perdure("state", "order-1042", "--json").document == state
    assert perdure("audit", "order-1042", "--json").document["acts"] == acts
    refused = perdure("state", "order-1042@3")
    assert (refused.code, "error[S125]" in refused.err) == (3, True)
    assert perdure("show", "order-1042").code == 0
    assert perdure("verify").code == 0
    assert perdure("compact", "order-1042", "--yes").out.startswith("nothing to take away")


def test_a_compacted_run_is_exported_imported_and_pruned(perdure: Command, store: Path) -> None:
    acts = perdure("audit", "order-1042", "--json").document["acts"]
    perdure("compact", "order-1042", "--yes")
    assert perdure("export", "order-1042", "out.perdure").code == 0
    assert perdure("verify", "--store", "out.perdure").code == 0
    assert perdure("import", "out.perdure", "--store", "other.db").code == 0
    assert perdure("audit", "order-1042", "--json", "--store", "other.db").document["acts"] == acts
    assert perdure("prune", "order-1042", "--keep", "audit", "--yes").out.startswith("removed 1 run")
    left = perdure("audit", "order-1042", "--json").document
    assert (left["acts"], left["removed"]["keys"]) == (acts, ["k-1"])


def test_every_long_run_is_compacted_at_once(perdure: Command, store: Path) -> None:
    assert perdure("compact", "--all", "--yes").out.startswith("nothing to take away")
    told = perdure("compact", "--all", "--least", "2", "--keep", "keys", "--yes", "--json").document
    assert "order-1042" in [one["run_id"] for one in told["runs"]]
    assert perdure("verify").code == 0


@pytest.mark.parametrize(
    "wrong", [(), ("order-1042", "--all"), ("order-1042", "--least", "5"), ("order-1042", "--agent", "desk")]
)
def test_one_run_or_all_of_them(perdure: Command, store: Path, wrong: tuple[str, ...]) -> None:
    assert perdure("compact", *wrong, "--yes").code == 2


def test_an_open_run_keeps_what_it_may_need(perdure: Command, store: Path) -> None:
    answer = perdure("compact", "nap-7", "--keep", "keys", "--yes")
    assert (answer.code, "error[S121]" in answer.err) == (5, True)
    assert "error[U703]" in perdure("compact", "nap-7@400", "--yes").err
