"""Where bytes are kept: verbs and guarantees, no meanings.

`open_store` turns an address into a store. It never falls back: a place that cannot be used is an error that
names it.
"""

from __future__ import annotations

import os
import re

from perdure.clock import SYSTEM, Clock
from perdure.errors import BadStoreURL, ExtraMissing, without_password
from perdure.store.memory import MemoryStore
from perdure.store.protocol import Store
from perdure.store.sqlite import SQLiteStore

__all__ = ["DEFAULT_PATH", "MemoryStore", "SQLiteStore", "Store", "open_store", "switched"]

DEFAULT_PATH = "perdure.db"
"""Where runs are kept if neither the caller nor PERDURE_STORE says otherwise: a file here."""


def open_store(url: str | None = None, *, clock: Clock = SYSTEM, look: bool = False) -> Store:
    """The store at an address; it is opened by `await store.open()`.

    None: the address in PERDURE_STORE, else ./perdure.db. `memory:`: this process's memory. `sqlite:///path`
    (with a fourth slash for an absolute path) or a plain path: an SQLite file. `postgresql://…`: a PostgreSQL
    database; raises ExtraMissing where its driver is not installed. Anything else raises BadStoreURL. `look`:
    a store that outlives the process is only read, and nothing in it or beside it is made or changed.

    An address that ends with `?encrypt=on` (in a longer query `&encrypt=on`): what the store keeps is sealed
    under the keys in PERDURE_KEY.
    """
    address, encrypted = switched(url if url is not None else os.environ.get("PERDURE_STORE") or DEFAULT_PATH)
    store = _open(address, clock, look=look)
    if not encrypted:
        return store
    from perdure.store.sealed import SealedStore  # dear to load, and seldom needed

    return SealedStore(store)


def switched(address: str) -> tuple[str, bool]:
    """An address without its switch, and whether that says that the store is encrypted.

    Raises BadStoreURL for another word than on or off.
    """
    found = re.search(r"(?<=[?&])encrypt=([^&]*)(&|$)", address)
    if found is None:
        return address, False
    if found[1] not in ("on", "off"):
        raise BadStoreURL(f"encrypt is on or off, not {found[1]!r}", url=without_password(address))
    return (address[: found.start()] + address[found.end() :]).rstrip("?&"), found[1] == "on"


def _open(address: str, clock: Clock, *, look: bool) -> Store:
    if address == "memory:":
        return MemoryStore(clock=clock)
    if address.startswith("sqlite:///") and len(address) > len("sqlite:///"):
        return SQLiteStore(address.removeprefix("sqlite:///"), clock=clock, look=look)
    if re.match(r"postgres(ql)?:", address):
        return _postgres(address, clock, look=look)
    # A single letter before the colon is a drive.
    if not address.strip() or "\0" in address or re.match(r"[A-Za-z][A-Za-z0-9+.-]+:|:", address):
        shown = without_password(address)
        near = re.match(r"sqlite:/*([^/\0].*)", address)
        remedy = f"a file's path comes after three slashes: sqlite:///{near[1]}" if near else None
        raise BadStoreURL(f"not a store address: {shown!r}", url=shown, remedy=remedy)
    return SQLiteStore(address, clock=clock, look=look)


def _postgres(address: str, clock: Clock, *, look: bool) -> Store:
    try:
        from perdure.store.postgres import PostgresStore
    except ImportError as error:
        what = f"a PostgreSQL store needs a package that is not installed: {error}"
        raise ExtraMissing(what, remedy='pip install "perdure[postgres]"') from error
    return PostgresStore(address, clock=clock, look=look)
