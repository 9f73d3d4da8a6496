"""The ids of traces and spans: digests of what a run is known by, the same in every process.

A span's id follows from its run and its place there, so that a child names a parent that is not yet told of,
perhaps by another process, and nothing has two ids. Law 16: the trace is the run's own, of a child that of
the run at its root.
"""

from __future__ import annotations

from perdure import codec
from perdure.runtime.birth import trace_of


def trace_id(run_id: str, trace: str) -> int:
    """The trace of a run. `trace`: as the run has recorded it; empty if it has not."""
    return int(trace or trace_of(run_id), 16)


def span_id(run_id: str, kind: str, *place: object) -> int:
    """The span of this kind (root, step, call, wait, …) at this place of a run: 64 bits, never 0."""
    parts = [part.encode("utf-8", "surrogatepass") for part in ("span", run_id, kind, *map(str, place))]
    return int.from_bytes(codec.digest(*parts)[:8], "big") or 1
