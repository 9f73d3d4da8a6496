"""Runs that are made again: live they are other runs, carried on by the engine they are the same."""

from __future__ import annotations

import importlib.util
import math

import pytest

from perdure.errors import ExtraMissing
from perdure.lab import diverge, smallmodel
from perdure.store.memory import MemoryStore

RUNS = 60


def quiet(what: str, done: int, of: int) -> None:
    """Nobody watches."""


@pytest.fixture(scope="module")
def result() -> diverge.Diverge:
    print("seed 5")
    speakers = ((diverge.WordModel(), RUNS),)
    return diverge.measure(5, quiet, asked=speakers, temperatures=(0.0, 0.3, 1.0))


def test_the_paper_figures() -> None:
    """99.6 to 100 % at temperature 1, after one step and after five; at 0 none."""
    assert 0.996 <= diverge.differs(1.0, 1) <= diverge.differs(1.0, 5) <= 1
    assert f"{diverge.differs(1.0, 1):.1%} {diverge.differs(1.0, 5):.1%}" == "99.6% 100.0%"
    assert diverge.differs(0.0, 1) == diverge.differs(0.0, 5) == 0
    for temperature in (0.0, 0.1, 1.0):
        assert sum(diverge.likings(temperature)) == pytest.approx(1)
    assert diverge.likings(1.0)[0] == pytest.approx(2 * diverge.likings(1.0)[1])


def test_live_they_differ_as_the_paper_says(result: diverge.Diverge) -> None:
    """Within three standard deviations, and at temperature 1 nearly all of them."""
    for row in result.rows:
        assert row.due is not None
        assert abs(row.live - row.due) <= 3 * math.sqrt(row.due * (1 - row.due) / RUNS) + 1e-9, row
    hot = [row for row in result.rows if row.temperature == 1.0]
    assert [row.steps for row in hot] == [1, 5]
    assert hot[0].live >= 0.98
    assert hot[1].live == 1.0


def test_carried_on_by_the_engine_none_differs(result: diverge.Diverge) -> None:
    assert [row.engine for row in result.rows] == [0.0] * 6


def test_control_without_the_journal_they_would_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that forgets everything when a process dies: what had left is not what is said afterwards."""

    class Forgetful(MemoryStore):
        async def open(self) -> None:
            self._runs.clear()
            await super().open()

    monkeypatch.setattr(diverge, "MemoryStore", Forgetful)
    found = diverge.measure(5, quiet, asked=((diverge.WordModel(), 10),), temperatures=(1.0,))
    assert found.rows[1].engine == 1.0


def test_the_same_seed_gives_the_same_numbers() -> None:
    speakers = ((diverge.WordModel(), 15),)
    first, again = (diverge.measure(3, quiet, asked=speakers, temperatures=(0.3,)) for _ in range(2))
    assert first.document() == again.document()


def test_it_is_told_and_drawn(result: diverge.Diverge) -> None:
    from matplotlib.figure import Figure

    (table,) = result.tables()
    assert table.texts()[0] == ["2 of 100 words", "0", "1", str(RUNS), "0 %", "0 %", "0 %"]
    assert "one reply in 271" in result.sentences()[0]
    axes = Figure().add_subplot()
    result.plot(axes)
    assert axes.get_xlabel() == "temperature"


def test_without_the_small_model_a_plain_word_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match="small language model is not installed") as caught:
        diverge.speakers(3, 2)
    assert caught.value.remedy == smallmodel.INSTALL
    assert [runs for _, runs in diverge.speakers(3)] == [3]
    found = diverge.measure(1, quiet, asked=diverge.speakers(1), temperatures=(1.0,))
    assert smallmodel.INSTALL in found.sentences()[-1]


@pytest.mark.slow
@pytest.mark.skipif(smallmodel.weights() is None, reason=smallmodel.INSTALL)
def test_a_real_small_model() -> None:
    """At temperature 0 it says the same, at 1 something else; the engine differs in none."""
    speakers = ((smallmodel.SmallModel(), 1),)
    cold, _, hot, _ = diverge.measure(1, quiet, asked=speakers, temperatures=(0.0, 1.0)).rows
    assert (cold.live, cold.engine, hot.engine) == (0, 0, 0)
    assert hot.live == 1
    assert cold.model.startswith("SmolLM2-135M")
