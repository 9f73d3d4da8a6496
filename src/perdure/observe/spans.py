"""Spans of opentelemetry-sdk that have the ids which they are given.

The provider is the user's: its sampler, limits, processors and exporters work as for any other span. Only our
own tracer takes its ids from here. Whether a run is recorded is asked of the sampler once for each drive, by
the run's trace id: a sampler that goes by the id decides alike in every process.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from opentelemetry import context as contexts
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Tracer
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags

from perdure.errors import BadSetting
from perdure.observe.conventions import SCOPE, Name

NANOS = 1000
"""Nanoseconds in a microsecond: theirs and ours."""


class _Given(IdGenerator):
    """Ids that were decided before the span is started, in the thread that starts it."""

    def __init__(self) -> None:
        self.next = threading.local()

    def generate_trace_id(self) -> int:
        """The trace's."""
        return int(self.next.trace)

    def generate_span_id(self) -> int:
        """The span's."""
        return int(self.next.span)

    def is_trace_id_random(self) -> bool:
        """It is a digest."""
        return False


class Begin(Struct, frozen=True, kw_only=True):
    """A span as it begins. `at` in microseconds; `links`: spans of this or another trace, each with why."""

    name: str
    id: int
    parent: SpanContext | None
    at: int
    kind: SpanKind = SpanKind.INTERNAL
    attributes: Mapping[str, Any] = {}
    links: Sequence[tuple[SpanContext, str]] = ()


class Spans:
    """Where spans are begun: one tracer of the user's provider."""

    def __init__(self, provider: otel.TracerProvider | None) -> None:
        found = otel.get_tracer_provider() if provider is None else provider
        tracer = found.get_tracer(SCOPE)
        if not isinstance(tracer, Tracer):
            raise BadSetting(
                f"spans need a TracerProvider of opentelemetry-sdk, found {type(found).__qualname__}",
                remedy="set one with opentelemetry.trace.set_tracer_provider, or pass it to trace(provider)",
            )
        self._tracer = tracer
        self._ids = tracer.id_generator = _Given()

    def context(self, trace: int, span: int, *, sampled: bool) -> SpanContext:
        """How a span is referred to, whether it is there or not."""
        flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
        return SpanContext(trace, span, is_remote=True, trace_flags=flags)

    def sampled(self, trace: int, name: str, attributes: Mapping[str, Any]) -> bool:
        """Whether the sampler wants this trace."""
        found = self._tracer.sampler.should_sample(
            Context(), trace, name, SpanKind.INTERNAL, dict(attributes)
        )
        return found.decision is Decision.RECORD_AND_SAMPLE

    def begin(self, trace: int, span: Begin) -> Span:
        """Start a span; it is told of when it is ended, and not at all if it never is."""
        parent = Context()
        if span.parent is not None:
            parent = otel.set_span_in_context(NonRecordingSpan(span.parent), parent)
        self._ids.next.trace, self._ids.next.span = trace, span.id
        return self._tracer.start_span(
            span.name,
            context=parent,
            kind=span.kind,
            attributes=dict(span.attributes),
            links=[Link(context, {Name.LINK: why}) for context, why in span.links],
            start_time=span.at * NANOS,
        )


def enter(span: Span) -> object:
    """Make it the current span; returns what `leave` takes."""
    return contexts.attach(otel.set_span_in_context(span))


def leave(token: Any) -> None:
    """Make the span current that was so before."""
    contexts.detach(token)


def stay(context: SpanContext) -> None:
    """Make a span that is told of later the current one, for the rest of this task."""
    contexts.attach(otel.set_span_in_context(NonRecordingSpan(context)))
