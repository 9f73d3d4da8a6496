"""Run the long sweeps, one after the other; print figures and seeds; end with 1 if anything should not be.

python -m soak                       all, in full
python -m soak failovers --seed 7    one of them, as it was
python -m soak --share 0.01          all of them, a hundredth as long
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import soak
from soak.order import Order, Outcome

Sweep = Callable[[Order], Outcome]


def sweeps() -> dict[str, Sweep]:
    """Every sweep by its name."""
    found = {}
    for info in pkgutil.iter_modules(soak.__path__):
        if not info.name.startswith("_"):
            sweep = getattr(importlib.import_module(f"soak.{info.name}"), "sweep", None)
            if sweep is not None:
                found[info.name] = sweep
    return found


def run(name: str, sweep: Sweep, seed: int, share: float) -> bool:
    """Run one and print what came of it; whether all is as it should be."""
    print(f"== {name}: python -m soak {name} --seed {seed} --share {share:g}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"perdure-soak-{name}-") as folder:
        try:
            outcome = sweep(Order(seed, share, Path(folder)))
        except Exception:  # noqa: BLE001 - the other sweeps are still of interest
            outcome = Outcome({}, [traceback.format_exc()])
    figures = {**outcome.figures, "offences": len(outcome.offences)}
    print(json.dumps({"sweep": name, "seed": seed, "seconds": round(time.monotonic() - began), **figures}))
    for what in outcome.offences[:20]:
        print(f"   OFFENCE {what}")
    sys.stdout.flush()
    return not outcome.offences


def main() -> int:
    """0 if every sweep found everything as it should be, else 1."""
    known = sweeps()
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(known)} (default: all)")
    parser.add_argument(
        "--seed", type=int, help="what everything is drawn from (default: drawn, and printed)"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the full length (default 1)")
    given = parser.parse_args()
    for name in given.names:
        if name not in known:
            parser.error(f"there is no sweep {name!r}")
    seed = secrets.randbits(31) if given.seed is None else given.seed
    good = [run(name, known[name], seed, given.share) for name in given.names or known]
    print(f"{sum(good)} of {len(good)} sweeps found everything as it should be")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
