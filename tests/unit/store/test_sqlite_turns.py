"""The writers' queue: whoever gives the turn cannot snatch it back from the one who waits."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from perdure.store.sqlite.turn import Turn, try_lock, unlock


class Waiter:
    """Another writer, in a thread of its own; it waits for the turn and gives it when told."""

    def __init__(self, path: str) -> None:
        self.turn = Turn(path)
        self.has = threading.Event()
        self.may_give = threading.Event()
        self.thread = threading.Thread(target=self._wait)
        self.thread.start()

    def _wait(self) -> None:
        self.turn.take()
        self.has.set()
        self.may_give.wait(60)
        self.turn.give()

    def end(self) -> None:
        """Let it give the turn, and end."""
        self.may_give.set()
        self.thread.join(60)
        self.turn.close()


def wait_until_next_is_taken(path: str) -> None:
    """Return when someone stands in line."""
    fd = os.open(path + "-next", os.O_RDWR)
    until = time.monotonic() + 60
    while try_lock(fd):
        unlock(fd)
        assert time.monotonic() < until
        time.sleep(0.001)
    os.close(fd)


@pytest.mark.parametrize("attempt", range(20))
def test_who_waits_comes_before_who_had_it(tmp_path: Path, attempt: int) -> None:
    path = str(tmp_path / "turn")
    mine = Turn(path)
    mine.take()
    other = Waiter(path)
    wait_until_next_is_taken(path)
    mine.give()
    assert not mine.try_take(), attempt
    assert other.has.wait(60)
    assert not mine.try_take()
    other.end()
    assert mine.try_take()
    mine.give()
    mine.close()


def test_a_closed_turn_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "turn")
    one, two = Turn(path), Turn(path)
    one.take()
    assert not two.take_within(0.01)
    one.close()
    assert two.take_within(60)
    two.close()
    one.close()
