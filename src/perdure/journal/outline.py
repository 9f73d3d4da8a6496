"""Values out of line: what is too large for an event's frame is a blob, and its address stands there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from perdure import codec
from perdure.errors import Damaged
from perdure.state import events as e
from perdure.store.protocol import (
    Blob,
    Store,
)

BLOB_BYTES = 256 * 1024
"""Where an event's frame is larger than this, its values that are larger are kept out of line.

Once per run.
"""


# of line

BLOB_HEADER = b"\xc7\x10\x40"  # msgpack ext 8, 16 bytes, code 64: the address of a blob by its digest


def outline(body: e.AnyBody) -> tuple[e.AnyBody, list[Blob]]:
    """The body with each large value replaced by its blob's address, and those blobs."""
    blobs: list[Blob] = []

    def away(value: Any) -> Any:
        if isinstance(value, bytes) and len(value) > BLOB_BYTES:
            digest = codec.digest(value)
            blobs.append(Blob(digest, value))
            return BLOB_HEADER + digest
        return value

    return _change_values(body, away), blobs


def _change_values(body: e.AnyBody, change: Callable[[bytes], bytes]) -> e.AnyBody:
    changed: e.AnyBody = map_values(body, change)
    return changed


def map_values(node: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with `change` applied to every bytes value in it."""
    if isinstance(node, bytes):
        return change(node)
    if isinstance(node, tuple):
        return tuple(map_values(item, change) for item in node)
    if isinstance(node, Struct):
        fields = {name: map_values(getattr(node, name), change) for name in node.__struct_fields__}
        return type(node)(**fields)
    return node


def legible(body: e.AnyBody) -> e.AnyBody:
    """The body with unpaired surrogates in its own texts (a detail, a note) written as escapes.

    Values keep theirs: the codec knows how to write them.
    """
    changed: e.AnyBody = map_texts(
        body, lambda text: text.encode("utf-8", "backslashreplace").decode("utf-8")
    )
    return changed


def map_texts(node: Any, change: Callable[[str], str]) -> Any:
    """The same structure with `change` applied to every text in it."""
    if isinstance(node, str):
        return change(node)
    if isinstance(node, tuple):
        return tuple(map_texts(item, change) for item in node)
    if isinstance(node, Struct):
        fields = {name: map_texts(getattr(node, name), change) for name in node.__struct_fields__}
        return type(node)(**fields)
    return node


def addresses(body: e.AnyBody) -> tuple[bytes, ...]:
    """The digests of the large values whose addresses stand in the body, each once."""
    found: dict[bytes, None] = {}

    def collect(value: bytes) -> bytes:
        if len(value) == 19 and value.startswith(BLOB_HEADER):
            found[value[3:]] = None
        return value

    _change_values(body, collect)
    return tuple(found)


async def blobs_of(body: e.AnyBody, store: Store, run_id: str) -> list[Blob]:
    """The large values whose addresses stand in the body, each once. Raises Damaged."""
    blobs = [Blob(digest, await store.blob(run_id, digest)) for digest in addresses(body)]
    if any(codec.digest(blob.data) != blob.digest for blob in blobs):
        raise Damaged(f"a large value of run {run_id} does not match its digest", run_id=run_id)
    return blobs


async def inline(body: e.AnyBody, store: Store, run_id: str) -> e.AnyBody:
    """The body with each blob's address replaced by its bytes."""
    found = {BLOB_HEADER + blob.digest: blob.data for blob in await blobs_of(body, store, run_id)}
    return _change_values(body, lambda value: found.get(value, value)) if found else body
