"""Commands with which people and other programs send a waiting run what it waits for: signal, answer.

Each puts one message into the run's inbox, durably and without a lease; whoever drives the run takes it once.
None of them loads a user's code: what the run could not take is refused by what the run has recorded of its
wait. What is typed is JSON, or else text.
"""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.act import send, user, value_of
from perdure.cli.options import Options, stored
from perdure.errors import AnswerUnfit, IdReused
from perdure.host import Runtime
from perdure.store.protocol import RunRow

_NEGATIVE = {"ignore_unknown_options": True}
"""A value such as -1 is no option."""


def _sending(command: Any) -> Any:
    """The options that both take."""
    by = click.option(
        "--by", default=user, show_default="the user's name", help="Who sends it; it is recorded."
    )
    once = click.option("--id", "sent_as", help="The message's own id: sent again with it, it counts once.")
    return by(once(stored(command)))


@click.command(short_help="Send a run a signal that it waits for, or will.", context_settings=_NEGATIVE)
@click.argument("run")
@click.argument("name")
@click.argument("payload", required=False)
@_sending
def signal(options: Options, run: str, name: str, payload: str | None, by: str, sent_as: str | None) -> int:
    """Send a run a signal. It is kept until a wait of that NAME takes it. PAYLOAD is JSON, or else text."""

    async def act(runtime: Runtime, row: RunRow) -> dict[str, Any]:
        value = None if payload is None else value_of(payload)
        fresh = await runtime.signal(row.run_id, name, value, id=sent_as, by=by)
        return {"name": name, "fresh": fresh}

    return send(options, run, "signal", {"by": by}, act)


@click.command(short_help="Answer what a run asks.", context_settings=_NEGATIVE)
@click.argument("run")
@click.argument("value")
@click.option("--question", metavar="PLACE", help="Its place, as perdure why shows it, if it asks several.")
@_sending
def answer(options: Options, run: str, value: str, question: str | None, by: str, sent_as: str | None) -> int:
    """Answer what a run asks. VALUE is JSON, or else text, as the question wants it."""

    async def act(runtime: Runtime, row: RunRow) -> dict[str, Any]:
        said = value_of(value)
        try:
            fresh = await runtime.answer(row.run_id, said, question=question, id=sent_as, by=by)
        except (AnswerUnfit, IdReused):  # perhaps the text was meant, or sent before
            if isinstance(said, str):
                raise
            fresh = await runtime.answer(row.run_id, value, question=question, id=sent_as, by=by)
        return {"fresh": fresh}

    return send(options, run, "answer", {"by": by}, act)
