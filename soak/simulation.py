"""A hundred thousand small worlds on virtual time: workers, leases, deaths and standstills, all from seeds.

The real engine over the store in memory (`tests.laws.world`). Each world is judged: every law, no write under
an old epoch, each lost lease taken over within a second of its end. A failure names its seed; `python -m
soak.simulation SEED 1` lives that world again. The trace of all is one number: the same for the same seed.
"""

from __future__ import annotations

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from hashlib import blake2b

from soak.order import WORKERS, Order, Outcome, module

WORLDS = 100_000
CHUNK = 500


def sweep(order: Order) -> Outcome:
    """All worlds, in chunks of a process each."""
    count = order.of(WORLDS)
    starts = range(order.seed, order.seed + count, CHUNK)
    totals = {"worlds": 0, "kills": 0, "freezes": 0, "acts": 0, "takeovers": 0}
    slowest, trace, found = 0.0, 0, list[str]()
    with ThreadPoolExecutor(WORKERS) as pool:
        sizes = {start: min(CHUNK, order.seed + count - start) for start in starts}
        jobs = [pool.submit(module, "soak.simulation", start, size) for start, size in sizes.items()]
        for number, job in enumerate(as_completed(jobs), 1):
            said = json.loads(job.result().splitlines()[-1])
            for name in totals:
                totals[name] += said[name]
            slowest, trace = max(slowest, said["slowest"]), trace ^ int(said["trace"], 16)
            found += said["found"]
            if number % 20 == 0:
                print(f"   {totals['worlds']:,} of {count:,} worlds", file=sys.stderr, flush=True)
    return Outcome({**totals, "slowest takeover": round(slowest, 3), "trace": f"{trace:016x}"}, found)


def lived(first: int, count: int) -> dict[str, object]:
    """What came of the worlds with these seeds."""
    from tests.laws.test_workers import small

    totals = {"worlds": 0, "kills": 0, "freezes": 0, "acts": 0, "takeovers": 0}
    slowest, trace, found = 0.0, 0, list[str]()
    for seed in range(first, first + count):
        try:
            world = small(seed)
        except Exception as error:  # noqa: BLE001 - a world that does not end is an offence like others
            found.append(f"seed {seed}: {type(error).__name__}: {error}"[:500])
            continue
        found += world.found
        totals["worlds"] += 1
        totals["kills"] += world.kills
        totals["freezes"] += world.freezes
        totals["acts"] += len(world.acts)
        totals["takeovers"] += len(world.takeovers)
        slowest = max([slowest, *world.takeovers])
        text = "\n".join([str(seed), *world.trace]).encode()
        trace ^= int.from_bytes(blake2b(text, digest_size=8).digest())
    return {**totals, "slowest": slowest, "trace": f"{trace:016x}", "found": found}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print(json.dumps(lived(int(sys.argv[1]), int(sys.argv[2]))))
