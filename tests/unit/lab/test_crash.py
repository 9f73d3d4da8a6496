"""Real kills: what becomes of effects under methods written by hand, and under perdure."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from perdure.lab import crash
from perdure.lab.methods import DATABASE, EFFECTS, METHODS, ON_POSTGRES, POINTS, STEPS, Fate, tally
from tests.database import new_database, server

EVERY = len(POINTS) * STEPS


def quiet(what: str, done: int, of: int) -> None:
    """Nobody watches."""


@pytest.mark.crash
def test_by_hand_effects_are_doubled_or_lost() -> None:
    """Every place once: what each method does follows from where it writes, and so do its rates."""
    ticks: list[int] = []
    found = crash.measure(
        1,
        lambda what, done, of: ticks.append(done),
        kills=EVERY,
        methods=["retry loop", "checkpoint after", "checkpoint before"],
        classes=["transactional", "reconciled"],
    )
    assert ticks == list(range(1, 6 * EVERY + 1))
    for effects in ("transactional", "reconciled"):
        rates = {
            method: [found.rate(fate, method=method, effects=effects) for fate in crash.FATES]
            for method in METHODS
        }
        assert rates["retry loop"] == [0, 1900, 0]
        assert rates["checkpoint after"] == [0, 400, 0]
        assert rates["checkpoint before"] == [200, 0, 0]
    assert found.rate("doubled", method="checkpoint after", point="before") == 0
    assert found.rate("lost", method="checkpoint before", point="sent") == 1000
    assert found.tables()[1].texts()[2][1:] == ["1,500 doubled", "0", "1,000 lost"]


@pytest.mark.crash
@pytest.mark.parametrize("method", crash.OURS)
def test_under_perdure_nothing_is_lost_or_doubled_and_what_is_unknown_is_asked(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the places, drawn by the seed, for each class that acts."""
    print("seed 2")
    monkeypatch.setenv("PERDURE_LAB_POSTGRES", server())
    classes = [effects for effects in EFFECTS if effects != "read"]
    found = crash.measure(2, quiet, kills=5, methods=[method], classes=classes)
    assert len(found.kills) == 20
    assert sum(kill.lost + kill.doubled for kill in found.kills) == 0
    assert {(kill.method, kill.effects) for kill in found.kills if kill.unknown} == {(method, "opaque")}
    left = [kill for kill in found.of(effects="opaque") if kill.point in ("sent", "acted")]
    assert left
    assert all(kill.unknown == 1 for kill in left)
    assert "Under perdure 0 effects of 20 killed tasks" in " ".join(found.sentences())


def test_every_place_is_tried_equally_often() -> None:
    """And the same seed draws the same ones."""
    asked = crash.trials(2 * EVERY, 1, ["perdure"], ["read"])
    assert set(Counter((trial["point"], trial["step"]) for trial in asked).values()) == {2}
    assert asked == crash.trials(2 * EVERY, 1, ["perdure"], ["read"])
    assert asked != crash.trials(2 * EVERY, 2, ["perdure"], ["read"])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("effects", EFFECTS)
def test_without_a_kill_every_effect_happens_once(
    method: str, effects: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if method == ON_POSTGRES:
        monkeypatch.setenv(DATABASE, new_database())
    METHODS[method](tmp_path, effects, Fate())  # type: ignore[arg-type]
    counts = tally(tmp_path, method, effects)  # type: ignore[arg-type]
    assert counts == {"lost": 0, "doubled": 0, "unknown": 0}


def test_without_a_server_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "postgres", nullcontext)
    found = crash.measure(
        1, quiet, kills=1, methods=["checkpoint after", ON_POSTGRES], classes=["reconciled"]
    )
    assert {kill.method for kill in found.kills} == {"checkpoint after"}
    assert "Not tried: perdure on PostgreSQL, as there is none" in found.sentences()[-1]
    assert found.document()["skipped"]


def test_it_is_drawn_and_kept() -> None:
    from matplotlib.figure import Figure

    kills = [
        crash.Kill(method, effects, point, 1, 0, 1, 0)
        for method in METHODS
        for effects in EFFECTS
        for point in POINTS
    ]
    result = crash.Crash(1, tuple(kills))
    figure = Figure()
    axes = figure.add_subplot()
    result.plot(axes)
    assert len(axes.get_yticklabels()) == len(METHODS) * len(EFFECTS)
    assert len(result.document()["per_1000"]) == len(kills)
    assert result.document()["per_1000"][0] == {
        "effects": "read",
        "method": "retry loop",
        "point": "thinking",
        "kills": 1,
        "lost": 0,
        "doubled": 1000,
        "unknown": 0,
    }


def test_a_killing_process_that_breaks_is_told() -> None:
    with pytest.raises(RuntimeError, match="ended with an error"):
        list(crash._told([[{"method": "none", "effects": "read", "point": "before", "step": 1}]]))
