"""Every run of a list, however many there are: a page at a time, so that no caller counts pages.

It knows the one verb `list`. A run that is made meanwhile is not among them, and one that changes meanwhile
comes as it was or as it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec.structs import replace

from perdure.store.protocol import Query, RunRow, Store

PAGE = 500
"""Runs that are listed at a time."""


async def every(store: Store, query: Query) -> AsyncIterator[RunRow]:
    """Every run that matches, the newest first. The query's `limit` and `before` are not asked. Raises
    StoreError.
    """
    query = replace(query, limit=PAGE, before=None)
    while page := await store.list(query):
        for row in page:
            yield row
        if len(page) < PAGE:
            return
        query = replace(query, before=(page[-1].created_at, page[-1].run_id))
