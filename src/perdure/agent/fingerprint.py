"""The digest of a JSON schema as far as data is concerned.

Two schemas have one fingerprint if they accept the same data in the same words: descriptions, titles, the
order of fields and the names of classes do not count. So a renamed class or a better docstring changes
nothing for an open run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from perdure.codec import digest

_SAID_ONLY = frozenset({"description", "title", "examples", "$defs"})
_VERBATIM = frozenset({"enum", "const", "default"})
_BY_NAME = frozenset({"properties", "patternProperties"})
_DEFINITION = "#/$defs/"


def fingerprint(*schemas: Mapping[str, Any]) -> bytes:
    """The digest (16 bytes) over what the schemas say about data."""
    bare = [_Bare(schema).whole() for schema in schemas]
    return digest(json.dumps(bare, sort_keys=True).encode())


class _Bare:
    """One schema without what only people and models read; its definitions numbered as they are met."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._numbers: dict[str, int] = {}

    def whole(self) -> dict[str, Any]:
        """The schema, and each definition that it needs."""
        bare = {"schema": self._of(self._schema)}
        definitions = self._schema.get("$defs", {})
        done = 0
        while done < len(self._numbers):  # a definition may need others
            name = list(self._numbers)[done]
            bare[f"definition {done}"] = self._of(definitions[name])
            done += 1
        return bare

    def _of(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self._of(part) for part in schema]
        if isinstance(schema, str) and schema.startswith(_DEFINITION):
            name = schema.removeprefix(_DEFINITION)
            return f"{_DEFINITION}{self._numbers.setdefault(name, len(self._numbers))}"
        if not isinstance(schema, Mapping):
            return schema
        return {key: self._under(key, schema[key]) for key in sorted(schema) if key not in _SAID_ONLY}

    def _under(self, key: str, part: Any) -> Any:
        if key in _VERBATIM:
            return part
        if key in _BY_NAME:
            return {name: self._of(part[name]) for name in sorted(part)}
        if key == "required":
            return sorted(part)
        return self._of(part)
