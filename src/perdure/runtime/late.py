"""What an act came to, told after the run was no longer this process's to write: handed over, never dropped.

The receipt becomes a message, which whoever drives the run applies (`messages.late_events`). A run that has
ended keeps it beside its events, since nothing follows the end (law 15); a run that was pruned keeps it as a
tombstone. Both are said aloud: nobody else would look. Knows nothing of steps.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from perdure import codec
from perdure.errors import RunGone, StoreError
from perdure.journal import Receipt, retold
from perdure.runtime.messages import Late, made_again
from perdure.store.protocol import Message, Store

log = logging.getLogger("perdure.run")


async def hand_over(store: Store, run_id: str, refused: Iterable[Receipt]) -> None:
    """Send the receipts that the store refused to whoever has the run now."""
    for receipt, call in refused:
        late = Late(
            receipt.path,
            receipt.attempt,
            call.key,
            receipt.outcome,
            receipt.final,
            receipt.value,
            call.name,
            call.effect,
            receipt.usage,
        )
        data = codec.encode({field: getattr(late, field) for field in late.__struct_fields__})
        try:
            await _send(store, Message(run_id, f"late-{late.key}-{late.attempt}", "late", data, True), late)
        except StoreError as error:
            log.error("run %s: a late result is lost, %s: %s", run_id, late.words, error)


async def _send(store: Store, message: Message, late: Late) -> None:
    run_id = message.run_id
    try:
        await store.deliver(message)
    except RunGone:
        await store.drop(run_id, (message.data,))
        log.error("run %s was pruned before it was told that %s; its tombstone says so", run_id, late.words)
        return
    row = await store.row(run_id)
    if row.terminal:
        events = (await retold(store, run_id)).events if late.outcome == "done" else ()
        again = made_again(events, late.receipt)
        but = "" if again is None else ", and it was made again: it may have happened twice"
        log.error("run %s had ended as %s before it was told that %s%s", run_id, row.status, late.words, but)
