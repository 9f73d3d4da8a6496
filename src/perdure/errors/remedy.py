"""Remedies that can be typed as they stand: a command names its store where that is not the default one."""

from __future__ import annotations

import re
import shlex

_LOOKS = "inbox|runs|show|why|state|diff|tail|audit|stats|verify|doctor|preflight|export"
_ANSWERS = "approve|deny|answer|signal|resolve|release|retry|cancel|retire|budget|fork|effect"
_STORED = f"run|worker|{_LOOKS}|{_ANSWERS}|import|prune|compact|erase|restore|migrate|replay|simulate|rotate"
_COMMAND = re.compile(rf"\bperdure (?:{_STORED})\b(?! --store)")


def at_store(text: str, store: str | None) -> str:
    """The text with `--store` in each command that opens a store; as it is for the default store (None)."""
    if store is None:
        return text
    shown = shlex.quote(without_password(store))
    return _COMMAND.sub(lambda found: f"{found[0]} --store {shown}", text)


def without_password(address: str) -> str:
    """An address for people: its password, wherever it stands, is found in ~/.pgpass or PGPASSWORD."""
    address = re.sub(r"(://[^/@:]*):[^/@]*@", r"\1@", address)
    return re.sub(r"([?&])password=[^&]*(&|$)", lambda found: found[1] if found[2] else "", address)
