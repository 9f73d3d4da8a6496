"""Commands that take another way from a point in the past: fork, and effect, which decides about its acts.

`fork` reads a run and makes a new one, or with --dry-run only tells what it would be; code is loaded only
with --app. `effect` is one message into a fork's inbox.
"""

from __future__ import annotations

import asyncio
from typing import Any

import click

from perdure.cli import exits
from perdure.cli.act import answering, send, user, value_of
from perdure.cli.app import load
from perdure.cli.budget import limits
from perdure.cli.document import print_document
from perdure.cli.options import Options, stored
from perdure.cli.storage import find, point, there
from perdure.errors import BadPoint
from perdure.host import Runtime
from perdure.store.protocol import RunRow
from perdure.timeline.amounts import counted
from perdure.timeline.change import SAME, Change, Changed
from perdure.timeline.fork import Fork, OriginalAct
from perdure.timeline.place import MISSING
from perdure.timeline.plain import clean, jsonable, quoted

ALL_MODELS = "*"
"""Stands for every model function where one is named: `--model large` is short for `--model *=large`."""


# ---------------------------------------------------------------------------------------------- fork


@click.command(short_help="Go on from a point of a run as a new run, with one input changed.")
@click.argument("run")
@click.option("--at", metavar="SEQ", type=int, help="The point, as RUN@SEQ has it.")
@click.option("--set", "sets", multiple=True, metavar="PLACE=JSON", help="Another value in the state.")
@click.option("--goal", metavar="GOAL", help="Another goal: JSON, or else text.")
@click.option("--result", "results", multiple=True, metavar="CALL=JSON", help="Another result of a call.")
@click.option("--model", "models", multiple=True, metavar="[NAME=]MODEL", help="Another model from here on.")
@click.option(
    "--budget", "budgets", multiple=True, metavar="KIND=AMOUNT", help="Other limits: usd=1, steps=20."
)
@click.option(
    "--effects",
    type=click.Choice(["ask", "simulate", "redo"]),
    default="ask",
    show_default=True,
    help="Calls that act and that the run made after the point: hold each, send none, or make all again.",
)
@click.option("--id", "new_id", metavar="ID", help="The new run's id; else one is made.")
@click.option(
    "--app", "--agent", "app", metavar="FILE[:AGENT]", help="Check the changes by the agent's types."
)
@click.option("--by", default=user, show_default="the user's name", help="Who forks; it is recorded.")
@click.option("--dry-run", is_flag=True, help="Only tell what the fork would be. Writes nothing.")
@stored
def fork(options: Options, /, run: str, **given: Any) -> int:
    """Make a new run that goes on from RUN@SEQ with what is changed. RUN itself is untouched.

    Calls recorded before the point are served and not sent. What RUN did to the outside after the point is
    listed, irreversible acts first, and by default each such call is held in the fork until you decide.
    """
    name, seq = point(run)
    if seq is not None and given["at"] is not None and seq != given["at"]:
        raise BadPoint(f"{clean(run)} and --at {given['at']} are two points", remedy="name one of them")
    seq = seq if seq is not None else given["at"]
    change = _change(given)
    agents = () if given["app"] is None else (load(given["app"]),)

    async def made() -> Fork:
        dry = given["dry_run"]
        async with there(options, look=dry) as store:
            row = await find(store, name)
            runtime = Runtime(store, agents)
            return await runtime.fork(
                row.run_id,
                seq,
                change,
                effects=given["effects"],
                id=given["new_id"],
                by=given["by"],
                dry_run=dry,
            )

    found = asyncio.run(made())
    if options.json:
        print_document(_document(found))
        return exits.OK
    _draw(options, found)
    return exits.OK


def _change(given: dict[str, Any]) -> Change:
    """What is to be changed, as typed."""
    models = dict(_pair(text, "--model", ALL_MODELS) for text in given["models"])
    model: Any = None
    if models:
        model = models[ALL_MODELS] if set(models) == {ALL_MODELS} else models
    return Change(
        goal=SAME if given["goal"] is None else value_of(given["goal"]),
        state={place: value_of(text) for place, text in (_pair(one, "--set") for one in given["sets"])},
        result={path: value_of(text) for path, text in (_pair(one, "--result") for one in given["results"])},
        model=model,
        budget=limits(given["budgets"]) if given["budgets"] else None,
    )


def _pair(text: str, option: str, name: str = "") -> tuple[str, str]:
    """NAME=VALUE as typed; a text without `=` is the value of `name`, if there is one."""
    left, mark, right = text.partition("=")
    if mark and left:
        return left.strip(), right
    if name and not mark:
        return name, text
    raise click.UsageError(f"{option} takes NAME=VALUE, not {text!r}")


def _document(found: Fork) -> dict[str, Any]:
    return {
        "run_id": None if found.dry_run else jsonable(found.run_id),
        "origin": jsonable(found.origin),
        "at": found.at,
        "step": found.step,
        "effects": found.effects,
        "dry_run": found.dry_run,
        "fresh": found.fresh,
        "changes": [_changed(one) for one in found.changes],
        "served": [{"path": path, "name": jsonable(name)} for path, name in found.served],
        "left": list(found.left),
        "acts": [
            {name: jsonable(getattr(act, name)) for name in act.__slots__ if name != "__weakref__"}
            for act in found.acts
        ],
    }


def _changed(one: Changed) -> dict[str, Any]:
    sides = {name: getattr(one, name) for name in ("was", "now")}
    there_ = {name: jsonable(value) for name, value in sides.items() if value is not MISSING}
    return {"what": one.what, "place": jsonable(one.place), **there_}


def _draw(options: Options, found: Fork) -> None:
    from perdure.cli.screen import Row, Screen, age

    screen = Screen()
    changes = counted(len(found.changes), "change")
    made = "New run" if found.dry_run else clean(found.run_id)
    steps = f"event {found.at}, in step {found.step + 1}"
    screen.draw(
        f"{made} from {clean(found.origin)} at {steps}. {changes if found.changes else 'Nothing changed'}"
    )
    for one in found.changes:
        was = "nothing" if one.was is MISSING else quoted(one.was, 100)
        screen.draw_hanging(_label(one), _text(f"{was} -> {quoted(one.now, 100)}"))
    rows: list[Row] = [[f"{path} {clean(name)}", "", "served, not sent"] for path, name in found.served]
    rows += [[_act(act), _came(act), _becomes(act)] for act in found.acts]
    if rows:
        screen.draw()
        screen.draw_columns(("CALL", "RECORDED", "IN THE FORK"), rows)
    for left in found.left:
        screen.draw(age(f"  {left}"))
    screen.draw()
    if found.dry_run:
        screen.draw("Nothing written. The same without --dry-run makes it; --effects ask|simulate|redo")
        return
    if not found.fresh:
        screen.draw("It was there already; nothing was written.")
    run = clean(found.run_id)
    ways = [f"perdure run FILE:AGENT --id {run}", f"perdure diff {clean(found.origin)} {run}"]
    screen.draw_commands(ways, store=options.store)


def _label(one: Changed) -> Any:
    return _text(f"  {one.what} {clean(one.place)}  " if one.place else f"  {one.what}  ")


def _text(text: str) -> Any:
    from perdure.cli.text import Text

    return Text(text)


def _act(act: OriginalAct) -> str:
    args = ", ".join(f"{clean(name)}={quoted(value, 40)}" for name, value in act.args.items())
    return f"{act.path} {clean(act.name)}({args}) {act.effect}"


def _came(act: OriginalAct) -> str:
    undone = ", undone since" if act.undone else ""
    if act.child:
        return (
            f"child {clean(act.child)}, {counted(act.acts, 'act')}{undone}"
            if act.acts
            else "child, past gone"
        )
    return (quoted(act.value, 60) if act.outcome == "done" else act.outcome.replace("_", " ")) + undone


def _becomes(act: OriginalAct) -> str:
    return {
        "asked": "HELD: reuse, act or simulate",
        "stands in": "this result, nothing is sent",
        "made again": "MADE AGAIN",
    }[act.in_fork]


# ---------------------------------------------------------------------------------------------- effect


@click.command(short_help="Decide about a call that a fork's origin has made already.")
@click.argument("run")
@click.argument("call", required=False)
@click.option("--reuse", is_flag=True, help="Take the result that its origin got. Nothing is sent.")
@click.option("--act", is_flag=True, help="Make the call, again.")
@click.option("--simulate", metavar="RESULT", help="Take this result: JSON, or else text. Nothing is sent.")
@answering
def effect(
    options: Options, run: str, call: str | None, reuse: bool, act: bool, simulate: str | None, **who: str
) -> int:
    """Decide about a call that a fork is held for, since its origin has made it after the point.

    CALL may be left out: then it is the one that the fork is held for.
    """
    if sum((reuse, act, simulate is not None)) != 1:
        raise click.UsageError("give exactly one of --reuse, --act, --simulate RESULT")
    result = {} if simulate is None else {"result": value_of(simulate)}
    how = "reuse" if reuse else "act" if act else "simulate"

    async def decide(runtime: Runtime, row: RunRow) -> dict[str, Any]:
        path = await runtime.decide_effect(row.run_id, call, how, **result, **who)  # type: ignore[arg-type]
        return {"call": path, "how": how}

    return send(options, run, "effect", who, decide)
