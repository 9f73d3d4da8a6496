"""A page of the store's file is damaged: a look shows what was there, or a coded error, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.unit.cli.conftest import Command

PAGE = 4096
RUNS = ("order-1042", "order-1043", "nap-7")

FILLS: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "zeros": lambda chance, page: bytes(PAGE),
    "ones": lambda chance, page: b"\xff" * PAGE,
    "noise": lambda chance, page: chance.randbytes(PAGE),
    "noise in its cells": lambda chance, page: page[: PAGE // 2] + chance.randbytes(PAGE // 2),
    "some bytes": lambda chance, page: bytes(
        byte ^ (chance.randrange(256) if chance.random() < 0.02 else 0) for byte in page
    ),
}


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("look", ["show", "why", "verify"])
def test_a_look_at_a_damaged_page_is_right_or_a_coded_error(
    perdure: Command, store: Path, look: str, fill: str
) -> None:
    connection = apsw.Connection(str(store))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    whole = store.read_bytes()
    before = {run: perdure(look, run).out for run in RUNS}
    codes: set[str] = set()
    for number in range(len(whole) // PAGE):
        chance = random.Random(number)
        start = number * PAGE
        page = FILLS[fill](chance, whole[start : start + PAGE])
        store.write_bytes(whole[:start] + page + whole[start + PAGE :])
        for run in RUNS:
            answer = perdure(look, run)
            place = f"page {number}, {run}: {answer}"
            if answer.code == 0 and "It is damaged:" not in answer.out:
                assert _timeless(answer.out) == _timeless(before[run]), place
            elif answer.code:
                assert "error[" in answer.err or answer.out.startswith(("damaged", "held")), place
                assert "Traceback" not in answer.err, place
                assert "error[U9" not in answer.err, place
                codes.add(answer.err[:11])
    assert "error[S107]" in codes or look != "show"


def _timeless(text: str) -> list[str]:
    """The words of a screen without those that say how long ago something was."""
    units = {"µs", "ms", "s", "min", "h"}
    return [word for word in text.split() if not word[0].isdigit() and word.rstrip(",") not in units]
