"""The crash harness as a program: `python -m perdure.testing.crash point | sweep | storm …`.

    point MODULE:SCENARIO --at call.acted:2,*:5     one point, told to people; exit code 1 if anything offends
    sweep ITEM… --share 0/2                          every point of a share, as JSON lines
    storm MODULE:SCENARIO… --kills 200 --seed 1      kills at random moments, as one JSON line

An ITEM is `MODULE:SCENARIO`, or `MODULE:SCENARIO!MODULE:FUNCTION` to break the engine in every life first
(a control); `@call.act+call.acted` behind it leaves only points at these boundaries.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perdure.testing.crash.kill import parse_kills
from perdure.testing.crash.scenario import Scenario, find, find_scenario
from perdure.testing.crash.storm import Storm, weather
from perdure.testing.crash.sweep import Plan, learn, sweep, warm
from perdure.testing.crash.trial import Trial, Verdict, run_trial


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.crash")
    commands = parser.add_subparsers(dest="command", required=True)
    point = commands.add_parser("point", help="one point")
    point.add_argument("item")
    point.add_argument("--at", default="", help="kills of the first, the second … life: boundary:hit,…")
    many = commands.add_parser("sweep", help="every point")
    many.add_argument("item", nargs="+")
    many.add_argument("--share", default="0/1")
    many.add_argument(
        "--again", type=float, default=1.0, help="how many of the points are killed a second time"
    )
    storm = commands.add_parser("storm", help="random kills")
    storm.add_argument("item", nargs="+")
    storm.add_argument("--kills", type=int, default=200)
    storm.add_argument("--longest", type=float, default=0.5)
    for command in (point, many, storm):
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--folder", type=Path, help="work in this folder and keep what offends")
    options = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace, Path], int] = {"point": _point, "sweep": _sweep, "storm": _storm}[
        options.command
    ]
    with _folder(options.folder) as folder:
        return run(options, folder)


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="perdure-crash-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def _read(item: str) -> tuple[Scenario, Callable[[], None] | None, frozenset[str]]:
    item, _, only = item.partition("@")
    scenario, _, broken = item.partition("!")
    return find_scenario(scenario), find(broken) if broken else None, frozenset(filter(None, only.split("+")))


def _point(options: argparse.Namespace, folder: Path) -> int:
    scenario, breakage, _ = _read(options.item)
    learnt = learn(scenario, folder / "unkilled")
    verdict = run_trial(Trial(scenario, parse_kills(options.at), breakage, learnt.ending), folder / "killed")
    kept = f"kept in {folder}" if options.folder else ""
    lines = [
        f"{options.item} --at {options.at or '(not killed)'}",
        f"  lives {verdict.lives}, killed {verdict.killed}, acts {verdict.acts}, unknown {verdict.unknowns}",
        f"  ending {verdict.ending.told() if verdict.ending else None}",
        *(f"  OFFENCE {what}" for what in verdict.offences),
        f"  {kept if verdict.offences else 'nothing offends'}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return bool(verdict.offences)


def _sweep(options: argparse.Namespace, folder: Path) -> int:
    share, shares = (int(part) for part in options.share.split("/"))
    warmed: set[str] = set()
    for number, item in enumerate(options.item):
        scenario, breakage, only = _read(item)
        if scenario.name not in warmed:
            warm(scenario)
            warmed.add(scenario.name)
        plan = Plan(
            scenario,
            share,
            shares,
            again=options.again,
            seed=options.seed,
            only=only,
            breakage=breakage,
            stop_at_first=breakage is not None,
        )
        for finding in sweep(plan, folder / f"{number}-{share}"):
            _tell(item=item, at=",".join(map(str, finding.kills)), **_facts(finding.verdict))
    return 0


def _facts(verdict: Verdict) -> dict[str, Any]:
    facts = dataclasses.asdict(verdict)
    del facts["ending"], facts["reached"]
    return facts


def _storm(options: argparse.Namespace, folder: Path) -> int:
    scenarios = [find_scenario(item) for item in options.item]
    endings = {}
    for scenario in scenarios:
        warm(scenario)
        endings[scenario.name] = learn(scenario, folder / f"unkilled-{scenario.name}").ending
    storm = Storm(scenarios, endings, options.kills, options.seed, longest=options.longest)
    weathered = weather(storm, folder)
    _tell(seed=options.seed, **dataclasses.asdict(weathered))
    return 0


def _tell(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
