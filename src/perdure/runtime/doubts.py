"""A run that another incarnation may have carried on: what it is about to do may have been done already.

A store that was brought back from a backup does not know what was done after it was made, nor does a run that
was exported know what its original went on to do. So a call that would act is unknown before it is made here:
its hook is asked, or a person. A call that an unchanged key protects is simply sent. Keeps law 2 across
incarnations, as far as their steps ask for the same calls.
"""

from __future__ import annotations

from perdure.runtime.boundary import reached
from perdure.runtime.identity import call_key
from perdure.runtime.wanted import Wanted
from perdure.state import events as e


async def raised(wanted: Wanted) -> bool:
    """Record that a call may have been made elsewhere. False: it needs no look, and may be made."""
    drive, head = wanted.drive, wanted.head
    doubt, before = drive.journal.record.doubt, wanted.call
    keyed = head.effect == "idempotent" and wanted.tool.options.key_ttl is None
    if doubt is None or keyed or head.effect in ("read", "transactional"):
        return False
    wanted.execution.forbid(wanted.branch)
    key = call_key(drive, wanted.path, head, 0 if before is None else before.round)
    attempt = 1 if before is None else before.attempt + 1
    intended = e.CallIntended(wanted.path, head, key, attempt, 0, drive.inbox_seen)
    unknown = e.CallUnknown(wanted.path, "restored", doubt.until)
    reached("doubt.raise")
    await drive.journal.append(intended, unknown)
    reached("doubt.raised")
    return True
