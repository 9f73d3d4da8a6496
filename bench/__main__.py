"""Measure everything, print the table, keep the results as JSON."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from bench import (
    ahead,
    crowd,
    disk,
    hands,
    keeping,
    loading,
    past,
    resuming,
    sealing,
    starting,
    states,
    steps,
    store,
    stored,
    waiting,
)
from bench.room import Room
from bench.table import HERE, about, publish, record, save, text

PARTS = {
    "steps": steps.measure,
    "states": states.measure,
    "disk": disk.measure,
    "crowd": crowd.measure,
    "loading": loading.measure,
    "keeping": keeping.measure,
    "starting": starting.measure,
    "waiting": waiting.measure,
    "store": store.measure,
    "stored": stored.measure,
    "hands": hands.measure,
    "ahead": ahead.measure,
    "past": past.measure,
    "resuming": resuming.measure,
    "sealing": sealing.measure,
}


def main() -> int:
    """0 if every target is met, else 1."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"what to measure (default: all): {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller crowds")
    parser.add_argument("--rounds", type=int, help="repetitions of each case (default 9, quick 3)")
    parser.add_argument("--dir", type=Path, help="where databases are made (default: a temporary folder)")
    parser.add_argument(
        "--publish", action="store_true", help="renew bench/results/latest.json and docs/performance.md"
    )
    given = parser.parse_args()
    for part in given.parts:
        if part not in PARTS:
            parser.error(f"there is no part {part!r}")
    rounds = given.rounds or (3 if given.quick else 9)
    with tempfile.TemporaryDirectory(prefix="perdure-bench-", dir=given.dir) as folder:
        room = Room(Path(folder), rounds, quick=given.quick)
        for name in given.parts or PARTS:
            begun = time.perf_counter()
            asyncio.run(PARTS[name](room))
            print(f"{name}: {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        room.bare.close()
        found = record(room.lines, about(room.pace.seen, room.pace.quiet, Path(folder)))
    print(text(room.lines))
    save(found, HERE / "results" / f"{time.strftime('%Y%m%d-%H%M%S')}.json")
    if given.publish:
        publish(found)
    return 1 if any(line.ok is False for line in room.lines) else 0


if __name__ == "__main__":
    sys.exit(main())
