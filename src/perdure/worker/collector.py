"""Python's garbage collector in a process that is a worker's alone.

A worker that drives hundreds of runs makes and frees objects by the hundred thousand, hardly any of them in a
circle. Looked for as often as Python does by itself, circles cost some twentieth of the processor's time, and
next to nothing as it is here. A process that is also somebody else's keeps what its owner has set.
"""

from __future__ import annotations

import gc

SELDOM = 10_000
"""So many more objects made than freed begin a collection; Python's own number is 700, or 2,000."""


def collect_seldom() -> None:
    """Leave out what is loaded by now, and collect less often; whoever has set the collector keeps that."""
    first, *others = gc.get_threshold()
    if gc.isenabled() and 0 < first < SELDOM:
        gc.collect()
        gc.freeze()
        gc.set_threshold(SELDOM, *others)
