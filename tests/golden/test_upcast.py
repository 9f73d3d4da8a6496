"""What this format's golden bytes are to a later one: read through the functions that lead there.

There is only one format yet, so that a next one is declared here: its event has a field less, and its body
stands first. Whoever makes a real one puts its function into `UPCASTS` and its golden files beside these.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure import codec
from perdure.codec import frame
from perdure.codec.upcast import UPCASTS
from perdure.errors import Damaged, NewerFormat
from perdure.state import events as e
from perdure.state.fold import fold_all
from perdure.state.record import RunRecord
from tests.golden.test_history import golden, history


class Renamed(msgspec.Struct, frozen=True, array_like=True):
    """An event of the next format."""

    body: list[Any]
    seq: int
    at: int


def brought(kind: str, body: Any) -> Any:
    """Format 1 to 2: an event tells its body first."""
    if kind != "Renamed":
        return body
    seq, at, _epoch, told = body
    return [told, seq, at]


@pytest.fixture
def next_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """This perdure writes format 2, and reads 1 through `brought`."""
    monkeypatch.setattr(frame, "FORMAT", 2)
    monkeypatch.setattr(frame, "_BARE", bytes((2, 0)))
    monkeypatch.setattr(frame, "UPCASTS", {1: brought})


def frames() -> list[bytes]:
    """The golden history as it was stored."""
    return [bytes.fromhex(row["frame"]) for row in golden()]


def test_every_format_that_was_left_behind_has_its_function() -> None:
    """A frame that any release has written can be read by this one."""
    assert sorted(UPCASTS) == list(range(1, frame.FORMAT))


@pytest.mark.usefixtures("next_format")
def test_an_older_event_is_read_as_todays() -> None:
    """What is no longer where it was is found where it is now."""
    for stored, event in zip(frames(), history(), strict=True):
        made = codec.unpack(stored, Renamed)
        assert (made.seq, made.at) == (event.seq, event.at)


@pytest.mark.usefixtures("next_format")
def test_a_kind_that_did_not_change_folds_to_the_same_run() -> None:
    """The long way through builtins loses nothing: not a tuple, not a value inside a value."""
    events = [codec.unpack(stored, e.Event) for stored in frames()]
    assert events == history()
    assert fold_all(RunRecord(), events, codec.decode) == fold_all(RunRecord(), history(), codec.decode)


@pytest.mark.usefixtures("next_format")
def test_what_does_not_fit_after_all_is_damage() -> None:
    """An older frame is believed no more than one of today's."""
    with pytest.raises(Damaged):
        codec.unpack(frames()[0][:-3], e.Event)
    with pytest.raises(NewerFormat, match="format 3"):
        codec.unpack(bytes((3, 0)) + frames()[0][2:], e.Event)
