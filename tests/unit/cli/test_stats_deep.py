"""stats on the command line: what the bytes of a store are."""

from __future__ import annotations

from pathlib import Path

from tests.laws.test_damage_laws import everything
from tests.unit.cli.conftest import Command


def test_a_deep_look_tells_kinds_snapshots_and_the_dearest_resume(perdure: Command, store: Path) -> None:
    before = everything(store.parent)
    answer = perdure("stats", "--deep", "--json")
    assert answer.code == 0, answer.err
    document = answer.document
    kinds, deep = document["deep"]["kinds"], document["deep"]
    assert sum(one["count"] for one in kinds.values()) == document["events"]
    assert sum(one["bytes"] for one in kinds.values()) == document["event_bytes"]
    assert kinds["run.started"]["count"] == sum(document["runs"].values())
    assert deep["worst_replay"]["events"] >= 12
    assert deep["unreadable"] == 0
    told = perdure("stats", "--deep").out
    assert "run.started" in told
    assert "the longest resume took" in told
    assert everything(store.parent) == before


def test_a_look_at_the_counts_alone_reads_no_event(perdure: Command, store: Path) -> None:
    document = perdure("stats", "--json").document
    assert "deep" not in document
    assert (document["snapshots"], document["left_bytes"], document["free_bytes"]) == (0, 0, 0)
    answer = perdure("compact", "order-1042", "--yes")
    assert answer.code == 0, answer

    document = perdure("stats", "--json").document
    assert document["snapshots"] == 1
    assert document["left_bytes"] > 0
