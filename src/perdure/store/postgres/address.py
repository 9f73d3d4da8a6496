"""Where a PostgreSQL store lies: its address, taken apart and put together for the driver.

    postgresql://USER@HOST:PORT/DATABASE?…     as libpq reads it; several hosts for a primary with standbys
    …&direct=HOST:PORT                         beside a pooler: where workers keep their sign of life

It makes no connection. Passwords stay here: what is shown to people never has one.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from perdure.errors import BadStoreURL, without_password

_SETTINGS: dict[str, str | int] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,  # a host that is gone without a word is noticed within half a minute
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "perdure",
}


class Address(Struct, frozen=True):
    """An address that the driver can read. `shown` is for people and has no password."""

    shown: str
    _parts: dict[str, str | int]
    _direct: str = ""

    @property
    def has_direct(self) -> bool:
        """Whether a way around a pooler is given."""
        return bool(self._direct)

    def conninfo(self, session: str, *, direct: bool = False) -> str:
        """For the driver. `session` is what the server must be: read-write or primary, never a replica."""
        parts = _SETTINGS | self._parts | {"target_session_attrs": session, "client_encoding": "utf8"}
        if direct and self._direct:
            host, _, port = self._direct.rpartition(":")
            parts |= {"host": host or self._direct, "port": port if host else "5432"}
            parts.pop("hostaddr", None)
        return make_conninfo("", **parts)


def parsed(url: str) -> Address:
    """Take an address apart. Raises BadStoreURL."""
    where, _, asked = url.partition("?")
    query = parse_qsl(asked, keep_blank_values=True)
    ours = dict(query).get("direct", "")
    rest = urlencode([(name, value) for name, value in query if name != "direct"], quote_via=quote)
    shown = without_password(url)
    try:
        parts = conninfo_to_dict(f"{where}?{rest}")
    except psycopg.Error as error:
        raise BadStoreURL(f"not a PostgreSQL address: {shown!r}: {error}", url=shown) from None
    return Address(shown, {name: value for name, value in parts.items() if value is not None}, ours)
