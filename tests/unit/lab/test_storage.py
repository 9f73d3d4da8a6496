"""The storage experiment: a real run, really killed, beside the paper; small, and the same each time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perdure.lab import experiment, page, plot, server, storage
from perdure.lab.experiment import Measured, Plan, deaths
from perdure.lab.life import PLACES, Case, talk

PLAN = Plan(24, 300, 4, (4,), stores=("memory", "sqlite", "langgraph"))


def quiet(what: str, done: int, of: int) -> None:
    assert 0 <= done <= of, what


@pytest.fixture(scope="module")
def found() -> storage.Storage:
    return storage.measure(3, quiet, PLAN)


def one(found: storage.Storage, store: str, keep: str, durability: str = "step") -> Measured:
    return next(m for m in found.measured if (m.store, m.keep, m.durability) == (store, keep, durability))


def test_deaths_are_spread_and_repeat_with_their_seed() -> None:
    kills = deaths(200, 24, 1)
    assert kills == deaths(200, 24, 1) != deaths(200, 24, 2)
    assert [step for step, _ in kills] == sorted({step for step, _ in kills})
    assert {place for _, place in deaths(800, 90, 5)} == set(PLACES)
    assert len(deaths(5, 24, 1)) == 4
    assert deaths(1, 3, 1) == ()


def test_talk_is_as_long_as_it_is_said_to_be_and_compresses_like_talk() -> None:
    import zlib

    assert [len(talk(number, 300)) for number in range(40)] == [300] * 40
    assert talk(1, 300) != talk(2, 300)
    text = "".join(talk(number, 300) for number in range(200)).encode()
    assert 0.25 < len(zlib.compress(text)) / len(text) < 0.5


@pytest.mark.crash
@pytest.mark.slow
def test_the_run_dies_where_it_is_told_to_and_the_store_replays_what_paper_says(
    found: storage.Storage,
) -> None:
    log, hybrid = one(found, "sqlite", "log"), one(found, "sqlite", "every 4")
    kills = deaths(PLAN.steps, PLAN.kills, 3)
    assert log.places == tuple(place for _, place in kills)
    # The start, two events for each step that was kept, the resumes so far, and a reply of the open step.
    for number, (at, replayed) in enumerate(zip(log.at, log.replayed, strict=True)):
        assert replayed - 1 - 2 * at - number in (0, 1)
    assert log.kinds["step.committed"][0] == log.kinds["call.settled"][0] == PLAN.steps
    assert log.kinds["run.resumed"][0] == PLAN.kills
    assert hybrid.snapshots == PLAN.steps // 4 - 1 or hybrid.snapshots == PLAN.steps // 4
    assert max(hybrid.replayed) <= 2 * 4 + PLAN.kills
    assert one(found, "sqlite", "snapshot").mean_replayed <= 2


@pytest.mark.crash
@pytest.mark.slow
def test_a_kill_costs_the_call_whose_reply_was_not_kept_and_no_other(found: storage.Storage) -> None:
    for keep in ("snapshot", "every 4", "log"):
        measured = one(found, "sqlite", keep)
        assert measured.again == sum(place in ("answered", "ended") for place in measured.places)
    memory = one(found, "memory", "log")
    assert not memory.survives
    assert memory.again >= sum(memory.at)


@pytest.mark.crash
@pytest.mark.slow
def test_bytes_in_their_order_and_every_sentence_from_a_figure(found: storage.Storage) -> None:
    log, whole = one(found, "sqlite", "log"), one(found, "sqlite", "snapshot")
    assert log.event_bytes <= log.handed < one(found, "sqlite", "every 4").handed < whole.handed
    assert log.file
    assert log.event_bytes < log.file
    if log.written:
        assert log.handed < log.written
    said = " ".join(found.sentences())
    changed = replace(found, measured=tuple(replace(m, again=m.again + 7777) for m in found.measured))
    assert f"{log.again + 7777} model calls" not in said
    assert f"{log.again + 7777} model calls" in " ".join(changed.sentences())
    papers, table = found.tables()
    assert len(table.rows) == len(found.measured)
    assert {row[0] for row in table.rows} >= {"memory", "sqlite", "sqlite, effects"}
    assert [row[0] for row in papers.rows] == ["snapshot", "every 4", "log"]
    shown = page.read(Path(__file__).parents[3] / "docs")["storage"].tables
    assert [one.heads for one in shown] == [papers.heads, table.heads]


@pytest.mark.crash
@pytest.mark.slow
def test_the_dial_is_drawn(found: storage.Storage, tmp_path: Path) -> None:
    plot.save(found, tmp_path / "dial.svg")
    text = (tmp_path / "dial.svg").read_text(encoding="utf-8")
    assert text.count("<path") > 20


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "has_langgraph", lambda: False)
    monkeypatch.setattr(experiment, "measure", lambda plan, seed, tick: ())
    result = storage.measure(1, quiet, replace(PLAN, stores=experiment.STORES))
    database, saver = result.sentences()[-2:]
    assert database.startswith("Not measured: PostgreSQL")
    assert server.INSTALL in database
    assert saver.startswith("Not measured: LangGraph's own saver")
    assert experiment.INSTALL in saver
    assert all(case.store != "langgraph" for case in experiment.cases(PLAN, 1))


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.postgres
def test_a_database_is_weighed_by_its_log_and_its_growth() -> None:
    with server.postgres() as found:
        assert found is not None, server.INSTALL
        case = Case("postgres", "log", steps=12, kills=((5, "answered"), (9, "kept")))
        measured = experiment.run(case, found)
    assert measured.again == 1
    assert measured.replayed == (1 + 8, 1 + 18 + 1)
    assert measured.written
    assert measured.file
    assert measured.handed < measured.written
    assert [each.store for each in experiment.cases(PLAN, 1, database=True) if each.store == "postgres"] == []
    every = replace(PLAN, stores=experiment.STORES)
    kept = [each.keep for each in experiment.cases(every, 1, database=True) if each.store == "postgres"]
    assert kept == ["snapshot", "every 4", "log"]


@pytest.mark.crash
def test_a_life_that_ends_otherwise_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="sqlite, log"):
        experiment.run(Case("sqlite", "log", steps=3, kills=((9, "asked"),)))
