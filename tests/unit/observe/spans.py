"""Spans of a test: a provider that keeps what it is told, and looks at the tree that it makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from perdure.observe import trace
from perdure.observe.conventions import SCOPE


class Told:
    """What was told so far."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = provider or TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Every span, in the order in which they were told."""
        return self.exporter.get_finished_spans()

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [span.name for span in self.spans]

    def one(self, name: str) -> ReadableSpan:
        """The only span of this name."""
        found = [span for span in self.spans if span.name == name]
        assert len(found) == 1, (name, self.names)
        return found[0]

    def all(self, name: str) -> list[ReadableSpan]:
        """The spans of this name, in the order of their beginning."""
        return sorted(
            (span for span in self.spans if span.name == name), key=lambda span: span.start_time or 0
        )


@contextmanager
def told(**how: Any) -> Iterator[Told]:
    """Within the block the runs of this process are told as spans."""
    made = Told(how.pop("provider", None))
    end = trace(made.provider, **how)
    try:
        yield made
    finally:
        end()
        made.provider.shutdown()


def id_of(span: ReadableSpan) -> int:
    """Its id."""
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def trace_of(span: ReadableSpan) -> int:
    """Its trace."""
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def whole(spans: Sequence[ReadableSpan]) -> dict[int, ReadableSpan]:
    """The spans by id: none comes twice, all are of one trace, and each but the root lies below another one,
    within its time.
    """
    twice = [
        name for name, count in Counter(f"{span.name} {id_of(span):x}" for span in spans).items() if count > 1
    ]
    assert not twice, twice
    assert len({trace_of(span) for span in spans}) == 1
    by_id = {id_of(span): span for span in spans}
    roots = [span for span in spans if span.parent is None]
    assert len(roots) == 1, [span.name for span in roots]
    for span in spans:
        if span.parent is None:
            continue
        assert span.parent.span_id in by_id, f"{span.name} lies below nothing"
        if span.instrumentation_scope is None or span.instrumentation_scope.name != SCOPE:
            continue  # by another clock
        above = by_id[span.parent.span_id]
        assert (above.start_time or 0) <= (span.start_time or 0), (above.name, span.name)
        assert (span.end_time or 0) <= (above.end_time or 0), (above.name, span.name)
    return by_id


def above(span: ReadableSpan, by_id: dict[int, ReadableSpan]) -> str:
    """The name of the span above it; empty for the root."""
    return "" if span.parent is None else by_id[span.parent.span_id].name


def about(span: ReadableSpan) -> dict[str, Any]:
    """Its attributes."""
    return dict(span.attributes or {})
