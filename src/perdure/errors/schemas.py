"""Stored data and a declared type or format disagree (M…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


class SchemaError(PerdureError):
    """Stored data and a declared type or format disagree."""

    default_safe = "The stored run is unchanged."


class ShapeMismatch(SchemaError):
    """Data does not fit its declared type: the message names path, expected and found."""

    code = "M301"
    default_remedy = (
        "mend the value, or the declared type; of a state: give a new field a default, or raise"
        " state_version and declare @agent.migration(from_version)"
    )


class MigrationGap(SchemaError):
    """The state has an older version, and the agent's migrations do not lead from there to today's.

    Also raised where an agent is declared whose migrations skip a version.
    """

    code = "M302"
    default_remedy = "declare the missing @agent.migration(from_version), or run it with the older code"


class StateNewer(SchemaError):
    """The run's state was written by newer agent code than this."""

    code = "M303"
    default_remedy = "run it with the newer code"


class NewerFormat(SchemaError):
    """Stored bytes carry a newer format version than this perdure reads."""

    code = "M304"
    default_remedy = "upgrade perdure on this machine: pip install -U perdure"


class MigrationFailed(SchemaError):
    """A migration raised, or made something that cannot be stored.

    The run is left as it was, and the code that failed does not take it up again.
    """

    code = "M306"
    default_remedy = "mend the migration and deploy it, or perdure migrate FILE:AGENT"


class ZoneMissing(SchemaError):
    """A stored moment names a time zone that this machine has no data for. It is not read as another zone."""

    code = "M305"
    default_remedy = "install the zone data: pip install tzdata"
