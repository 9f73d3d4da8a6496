"""Stored data and a declared type or format disagree (M…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


class SchemaError(PerdureError):
    """Stored data and a declared type or format disagree."""

    default_safe = "The stored run is unchanged."


class ShapeMismatch(SchemaError):
    """Data does not fit its declared type: the message names path, expected and found."""

    code = "M301"
    default_remedy = "raise state_version and declare @agent.migration(from_version), or mend the value"


class StateNewer(SchemaError):
    """The run's state was written by newer agent code than this."""

    code = "M303"
    default_remedy = "run it with the newer code"


class NewerFormat(SchemaError):
    """Stored bytes carry a newer format version than this perdure reads."""

    code = "M304"
    default_remedy = "upgrade perdure on this machine: pip install -U perdure"


class ZoneMissing(SchemaError):
    """A stored moment names a time zone that this machine has no data for. It is not read as another zone."""

    code = "M305"
    default_remedy = "install the zone data: pip install tzdata"
