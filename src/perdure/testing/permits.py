"""Law 8, judged from the journal alone: a permission is used at most once, for what was permitted, in time.

Also the part of law 17 that speaks of denials. It asks no engine: it counts who agreed by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from perdure.state import events as e


@dataclass(slots=True)
class _Permit:
    """A request as far as it has been read. `until`: when what was agreed lapses."""

    asked: e.ApprovalRequested
    seq: int
    agreed: set[str] = field(default_factory=set)
    edit: tuple[tuple[str, bytes], ...] = ()
    until: int = 0
    ended: str = ""


@dataclass(slots=True)
class Permits:
    """The requests of one run, read in order. `used`: the event before was a permission used at this path."""

    newest: dict[str, _Permit] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    used: str | None = None

    def see(self, event: e.Event) -> Iterator[str]:
        """What should not be about this event."""
        body = event.body
        if self.used is not None:
            path, self.used = self.used, None
            if not (isinstance(body, e.CallIntended | e.CallSettled) and body.path == path):
                yield f"a permission for {path} is used and its act does not follow"
        match body:
            case e.ApprovalRequested():
                yield from self._asked(event, body)
            case e.ApprovalGranted():
                yield from self._granted(event, body)
            case e.ApprovalDenied() | e.ApprovalExpired() | e.ApprovalVoided():
                yield from self._ended(event, body)
            case e.ApprovalUsed():
                yield from self._used(event, body)
            case e.CallIntended():
                yield from self._intended(body)
            case e.StepRestarted():
                self.newest = {path: one for path, one in self.newest.items() if one.seq <= body.keep}
            case e.StepCommitted() | e.RunFinished() | e.RunForked():
                self.newest = {}
            case _:
                return

    def _asked(self, event: e.Event, body: e.ApprovalRequested) -> Iterator[str]:
        before = self.newest.get(body.path)
        if before is not None and not before.ended:
            yield f"{body.path} is asked for while {before.asked.id} is open"
        if body.id in self.ids:
            yield f"two requests are called {body.id}"
        self.ids.add(body.id)
        self.newest[body.path] = _Permit(body, event.seq)

    def _find(self, path: str, made: str) -> _Permit | None:
        permit = self.newest.get(path)
        return permit if permit is not None and permit.asked.id == made else None

    def _granted(self, event: e.Event, body: e.ApprovalGranted) -> Iterator[str]:
        permit = self._find(body.path, body.id)
        if permit is None or permit.ended:
            yield f"approval {body.id} is granted and is not open"
            return
        if permit.edit != body.edit:
            permit.agreed = set()
        if body.principal in permit.agreed:
            yield f"approval {body.id} is granted twice by {body.principal}"
        permit.agreed.add(body.principal)
        permit.edit, permit.until = body.edit, body.until

    def _ended(
        self, event: e.Event, body: e.ApprovalDenied | e.ApprovalExpired | e.ApprovalVoided
    ) -> Iterator[str]:
        permit = self._find(body.path, body.id)
        if permit is None or permit.ended:
            yield f"approval {body.id} ends and is not open"
            return
        if isinstance(body, e.ApprovalExpired) and len(permit.agreed) >= permit.asked.quorum:
            yield f"approval {body.id} was granted and has expired"
        permit.ended = event.kind.removeprefix("approval.")

    def _used(self, event: e.Event, body: e.ApprovalUsed) -> Iterator[str]:
        permit = self._find(body.path, body.id)
        if permit is None or permit.ended:
            yield f"approval {body.id} is used and is {permit.ended if permit else 'not there'}"
        elif len(permit.agreed) < permit.asked.quorum:
            yield f"approval {body.id} is used and {len(permit.agreed)} of {permit.asked.quorum} agreed"
        elif event.at >= permit.until:
            yield f"approval {body.id} is used after its end"
        if permit is not None:
            permit.ended = "used"
        self.used = body.path

    def _intended(self, body: e.CallIntended) -> Iterator[str]:
        """Where a permission was asked for, nothing is intended without one, and nothing else."""
        permit = self.newest.get(body.path)
        if permit is None:
            return
        if permit.ended not in ("used", "voided"):  # voided: the call needs none any more
            yield f"call {body.path} is intended and its permission is {permit.ended or 'not used'}"
        edited = dict(permit.edit)
        if permit.ended == "used" and any(
            value != edited[name] for name, value in body.head.args if name in edited
        ):
            yield f"call {body.path} is intended with other arguments than were permitted"
        if permit.ended == "used" and not edited and body.head.digest != permit.asked.head.digest:
            yield f"call {body.path} is intended and another one was permitted"
