"""Commands to begin with: demo and init."""

from __future__ import annotations

import asyncio
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli import exits
from perdure.cli.document import print_document
from perdure.cli.options import Options, printing
from perdure.errors import CannotWrite, FileThere
from perdure.timeline.plain import jsonable

if TYPE_CHECKING:
    from perdure.demo.play import Scene, Setting


@click.command(short_help="Kill an agent half-way through a payment and watch it carry on.")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Play in this folder and keep it.")
@printing
def demo(options: Options, folder: Path | None) -> int:
    """Kill an agent half-way through a payment and watch it carry on.

    An agent with a scripted model, a bank that is a process of its own, and a worker that is killed with
    SIGKILL between the bank's payment and its receipt. Nothing leaves this machine, unless OPENAI_BASE_URL
    and OPENAI_API_KEY name a model of your own.
    """
    place = _folder(folder)
    if options.json:
        return asyncio.run(_documented(place))
    return asyncio.run(_played(place))


def _folder(folder: Path | None) -> Path:
    """The folder to play in, made and tried. Raises CannotWrite."""
    try:
        place = folder or Path(tempfile.mkdtemp(prefix="perdure-demo-"))
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        where = error.filename if folder is None else folder
        raise CannotWrite(f"{where} cannot be written to: {error.strerror}", path=str(where)) from error
    return place


async def _played(folder: Path) -> int:
    from perdure.cli.stage import draw_ending, draw_opening, draw_scene
    from perdure.demo.play import perform

    kept: list[Setting] = []

    def opening(setting: Setting) -> None:
        kept.append(setting)
        draw_opening(setting)

    ending = await perform(folder, opening, draw_scene)
    draw_ending(kept[0], ending)
    return exits.OK if ending.ok else exits.FAILURE


async def _documented(folder: Path) -> int:
    from perdure.demo.play import RUN_ID, perform

    scenes: list[Scene] = []
    ending = await perform(folder, lambda setting: None, scenes.append)
    code = exits.OK if ending.ok else exits.FAILURE
    print_document(
        {
            "ok": ending.ok,
            "folder": jsonable(str(folder)),
            "store": jsonable(str(folder / "perdure.db")),
            "run_id": RUN_ID,
            "status": ending.outcome.status,
            "killed": ending.killed,
            "refunds": jsonable(ending.refunds),
            "model_asked": ending.asked,
            "scenes": [
                {"at": round(scene.at, 3), "who": scene.who, "text": jsonable(scene.text)} for scene in scenes
            ],
            "exit": code,
        }
    )
    return code


# ---------------------------------------------------------------------------------------------- init


@click.command(short_help="Write an agent of your own to start from.")
@click.argument("path", default="agent.py", type=click.Path(path_type=Path))
@printing
def init(options: Options, path: Path) -> int:
    """Write an agent of your own to start from.

    PATH is agent.py unless told otherwise. It runs at once and overwrites nothing.
    """
    target = path / "agent.py" if path.is_dir() else path
    text = (
        files("perdure.demo")
        .joinpath("starter.py")
        .read_text(encoding="utf-8")
        .replace("agent.py", target.name)
    )
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise FileThere(f"{target} is there already", path=str(target)) from None
    except OSError as error:
        raise CannotWrite(f"{target} cannot be written: {error.strerror}", path=str(target)) from error
    if options.json:
        print_document({"written": jsonable(str(target)), "lines": text.count("\n")})
        return exits.OK
    click.echo(f"wrote {target}, {text.count(chr(10))} lines, yours to change")
    click.echo(f"next   perdure run {target}")
    return exits.OK
