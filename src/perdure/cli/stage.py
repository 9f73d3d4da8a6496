"""How the play of `perdure demo` looks in a terminal: the scenes as they happen, the run's own record, the
count.
"""

from __future__ import annotations

from perdure.agent import Finished
from perdure.cli.drawing import draw_timeline
from perdure.cli.screen import Screen
from perdure.cli.text import Text
from perdure.demo.ledger import money
from perdure.demo.play import GOAL, RUN_ID, Ending, Scene, Setting
from perdure.timeline.amounts import counted
from perdure.timeline.plain import brief, clean
from perdure.timeline.view import lines

_MARKS = {
    "worker": ("↻", "cyan"),
    "bank": ("$", "bold yellow"),
    "killed": ("✗", "bold red"),
    "run": ("●", "bold"),
    "taken": ("?", "bold cyan"),
}


def draw_opening(setting: Setting) -> None:
    """What is about to be seen, and where."""
    screen = Screen()
    screen.draw()
    leaves = "Nothing leaves this machine." if setting.model == "scripted" else "Only the model is elsewhere."
    screen.draw(Text.of(("perdure demo", "bold"), f"   a refund desk and a bank. {leaves}"))
    screen.draw()
    screen.draw_pairs(
        [
            ("goal", GOAL),
            ("model", f"{setting.model}; each question to it is counted"),
            ("bank", f"process {setting.bank_pid}, its own ledger; asked twice, it pays twice"),
            ("folder", str(setting.folder)),
        ]
    )
    screen.draw()


def draw_scene(scene: Scene) -> None:
    """One thing that just happened."""
    mark, style = _MARKS[scene.who]
    label = Text.of((f"  {scene.at:6.2f} s  ", "dim"), (mark, style), "  ")
    Screen().draw_hanging(label, Text(clean(scene.text), style if scene.who == "killed" else ""))


def draw_ending(setting: Setting, ending: Ending) -> None:
    """The run as it recorded itself, what the bank's ledger says, and what to try next."""
    screen = Screen()
    screen.draw()
    draw_timeline(screen, lines(ending.events), whole=True)
    screen.draw()
    screen.draw_pairs(_count(ending))
    screen.draw()
    store = f"--store {setting.store}"
    if ending.ok:
        screen.draw(Text.of(("  ✓ ", "bold green"), ("one refund, in spite of the kill", "bold")))
    else:
        screen.draw(Text.of(("  ✗ ", "bold red"), (_wrong(ending), "bold")))
    screen.draw()
    screen.draw_commands([f"perdure show {RUN_ID} {store}", f"perdure runs {store}"], label="  look")
    screen.draw_commands(["perdure init    writes agent.py, an agent of your own"], label="  next")


def _count(ending: Ending) -> list[tuple[str, str]]:
    paid = ", ".join(f"{entry['receipt']} {money(entry['cents'])}" for entry in ending.refunds)
    count = len(ending.refunds)
    rows = [("ledger", f"{counted(count, 'refund')}: {paid}. A plain retry would have paid again")]
    if ending.killed:
        again = ending.asked - ending.recorded
        repeated = "none of them again" if again <= 0 else f"{again} of them again"
        takeover = f"{ending.takeover_seconds:.2f} s until the new worker had started and claimed the run"
        rest = f"{ending.rest_seconds * 1000:.0f} ms from there to its end"
        rows.append(("model", f"asked {ending.asked} times, {repeated} after the kill"))
        rows.append(("times", f"{takeover}, {rest}"))
    if isinstance(ending.outcome, Finished):
        rows.append(("result", brief(ending.outcome.result, 200)))
    return rows


def _wrong(ending: Ending) -> str:
    if not ending.killed:
        return (
            f"the run came to {ending.outcome.status} without asking the bank for a refund; nobody was killed"
        )
    return f"the run came to {ending.outcome.status}, the bank has paid {len(ending.refunds)} times"
