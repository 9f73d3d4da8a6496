"""export, import and prune on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.cli.removal import SPACE
from tests.database import new_database
from tests.laws.test_damage_laws import everything
from tests.unit.cli.conftest import Command


def test_an_exported_run_is_read_by_every_look_without_its_store(perdure: Command, store: Path) -> None:
    told = perdure("export", "order-1042").out
    assert "order-1042.perdure: order-1042, 12 events" in told
    shown = {name: perdure(name, "order-1042", "--json").document for name in ("show", "audit", "state")}
    store.unlink()
    before = everything(store.parent)
    for name, document in shown.items():
        again = perdure(name, "order-1042", "--json", "--store", "order-1042.perdure").document
        for one in (again, document):  # when it was written there is no part of a run's past
            one.pop("why", None)
            for changing in ("created_at", "updated_at", "since"):
                one.get("run", {}).pop(changing, None)
        assert again == document, name
    assert perdure("verify", "--store", "order-1042.perdure").code == 0
    assert everything(store.parent) == before


def test_an_export_overwrites_nothing_and_may_be_read_by_its_owner_alone(
    perdure: Command, store: Path
) -> None:
    assert perdure("export", "order-1042", "out.perdure").code == 0
    assert (store.parent / "out.perdure").stat().st_mode & 0o777 == 0o600
    assert "error[U706]" in perdure("export", "order-1042", "out.perdure").err
    assert "error[U709]" in perdure("export", "order-1042", "no/where.perdure").err


def test_a_run_that_has_not_ended_is_imported_held(perdure: Command, store: Path) -> None:
    perdure("export", "nap-7")
    answer = perdure("import", "nap-7.perdure", "--store", "other.db")
    assert answer.out.splitlines()[0].startswith("nap-7 imported: held")
    assert "perdure release --store other.db nap-7" in answer.out
    [run] = perdure("runs", "--json", "--store", "other.db").document["runs"]
    assert (run["status"], run["needs"]) == ("held", "person")
    assert "was there already" in perdure("import", "nap-7.perdure", "--store", "other.db").out


def test_a_changed_or_foreign_file_is_refused_and_makes_no_store(perdure: Command, store: Path) -> None:
    perdure("export", "order-1042")
    path = store.parent / "order-1042.perdure"
    path.write_bytes(path.read_bytes()[:-20] + bytes(20))
    assert "error[S107]" in perdure("import", "order-1042.perdure", "--store", "other.db").err
    (store.parent / "foreign").write_text("hello")
    assert "error[U711]" in perdure("import", "foreign", "--store", "other.db").err
    assert not (store.parent / "other.db").exists()


def test_nothing_is_written_into_an_exported_run(perdure: Command, store: Path) -> None:
    perdure("export", "order-1043")
    answer = perdure("cancel", "order-1043", "--store", "order-1043.perdure")
    assert (answer.code, "error[S104]" in answer.err) == (5, True)


def test_prune_says_first_what_it_would_do_and_asks(perdure: Command, store: Path) -> None:
    before = everything(store.parent)
    told = perdure("prune", "--dry-run").out
    assert told.startswith("would remove 1 run, ")
    assert "  goes: order-1042, succeeded\n" in told
    assert perdure("prune", "--dry-run", "--json").document["runs"] == ["order-1042"]
    assert everything(store.parent) == before
    answer = perdure("prune")
    assert (answer.code, "error[U713]" in answer.err) == (5, True)
    assert perdure("prune", "--older", "30d", "--yes").out.startswith("nothing to remove")
    assert perdure("prune", "--yes").out.startswith("removed 1 run")
    assert "error[S113]" in perdure("show", "order-1042").err
    kept = perdure("runs", "--json").document["runs"]
    assert sorted(run["run_id"] for run in kept) == ["fresh-1", "nap-7", "order-1043"]


def test_a_removed_run_still_tells_what_it_did_if_its_audit_was_kept(perdure: Command, store: Path) -> None:
    acts = perdure("audit", "order-1042", "--json").document["acts"]
    told = perdure("prune", "--keep", "audit", "--yes", "--json").document
    assert (told["removed"], told["runs"]) == (1, ["order-1042"])
    left = perdure("audit", "order-1042", "--json").document
    assert left["acts"] == acts
    assert left["removed"]["keys"] == ["k-1"]
    assert "was removed" in perdure("audit", "order-1042").out


def test_with_its_keys_alone_it_tells_these(perdure: Command, store: Path) -> None:
    perdure("prune", "--yes")
    assert "k-1" in perdure("audit", "order-1042").out


@pytest.mark.postgres
def test_a_database_is_told_to_have_room_that_waits_for_its_vacuum(perdure: Command, store: Path) -> None:
    perdure("export", "order-1042", "out.perdure")
    url = new_database()
    perdure("import", "out.perdure", "--store", url)
    seen = perdure("compact", "order-1042", "--yes", "--store", url).out.splitlines()
    assert seen[-1] == SPACE
    seen = perdure("prune", "order-1042", "--yes", "--store", url).out.splitlines()
    assert (seen[0].startswith("removed 1 run"), seen[-1]) == (True, SPACE)
    assert SPACE not in perdure("prune", "order-1042", "--yes", "--store", url).out
    assert "VACUUM" in perdure("stats", "--json", "--store", url).document["facts"]["dead rows"]
    assert SPACE not in perdure("prune", "order-1042", "--yes").out


@pytest.mark.parametrize("span", ["30", "d", "-1d", "1y", "1.5d"])
def test_a_length_of_time_must_be_one(perdure: Command, store: Path, span: str) -> None:
    answer = perdure("prune", "--older", span, "--dry-run")
    assert (answer.code, "not a length of time" in answer.err) == (2, True)
