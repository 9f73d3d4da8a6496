"""What comes in the clear where personal data is meant: from a command line, a caller, another program.

Four ways to know what of it is to be sealed: the type, where the code is at hand (`Shape.taken`); the schema
that a wait recorded; what stood in its place before; and where nothing tells, all of it, as one, until it
reaches whoever has the types. Plain data in, plain data out, under the vault in context.
"""

from __future__ import annotations

from typing import Any

from perdure.codec.fitting import misfit
from perdure.codec.personal import sealed
from perdure.codec.sealed import Sealed, vault_here
from perdure.codec.value import decode


def any_sealed(plain: Any) -> bool:
    """Whether something in it is sealed."""
    kind = type(plain)
    if kind is dict:
        return any(any_sealed(key) or any_sealed(item) for key, item in plain.items())
    if kind in (list, tuple, set, frozenset):
        return any(map(any_sealed, plain))
    return kind is Sealed


# ------------------------------------------------------------------------------------------ by a schema


def personal_in(schema: Any) -> bool:
    """Whether this JSON schema calls something personal."""
    if type(schema) is dict:
        return "x-personal" in schema or any(map(personal_in, schema.values()))
    return type(schema) is list and any(map(personal_in, schema))


def by_schema(schema: Any, given: Any) -> Any:
    """The data with what this JSON schema calls personal sealed. Raises KeyMissing, PersonalErased."""
    return _by(schema, given, schema.get("$defs", {}) if type(schema) is dict else {})


def _by(schema: Any, given: Any, defs: dict[str, Any]) -> Any:
    kind = type(given)
    if type(schema) is not dict or kind is Sealed:
        return given
    if schema.get("x-personal"):
        return sealed(given)
    reference = str(schema.get("$ref", ""))
    if reference.startswith("#/$defs/"):
        return _by(defs.get(reference.removeprefix("#/$defs/")), given, defs)
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if type(one) is dict and not misfit({**one, "$defs": defs}, given):
            return _by(one, given, defs)
    if kind is dict:
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        return {name: _by(known.get(name, others), item, defs) for name, item in given.items()}
    if kind in (list, tuple):
        first, items = schema.get("prefixItems", []), schema.get("items")
        return kind(_by(first[at] if at < len(first) else items, item, defs) for at, item in enumerate(given))
    return given


# ---------------------------------------------------------------------------------- by what was there


def beside(given: Any, was: Any) -> Any:
    """What is given in the place of `was`, sealed where that was. Raises KeyMissing, PersonalErased."""
    if given is was or type(given) is Sealed:
        return given
    if type(was) is Sealed:
        return sealed(given)
    if type(given) is dict and type(was) is dict:
        return {key: beside(item, was.get(key)) for key, item in given.items()}
    if type(given) in (list, tuple) and type(was) in (list, tuple) and was:
        return type(given)(beside(item, was[min(at, len(was) - 1)]) for at, item in enumerate(given))
    return given


def unclear(given: Any, was: Any) -> bool:
    """Whether `was` leaves it open what of `given` is personal: there was nothing, or something else."""
    if given is was or type(given) is Sealed or type(was) is Sealed:
        return False
    if type(given) is dict and type(was) is dict:
        return any(unclear(item, was.get(key)) for key, item in given.items())
    if type(given) in (list, tuple) and type(was) in (list, tuple) and was:
        return any(unclear(item, was[min(at, len(was) - 1)]) for at, item in enumerate(given))
    return bool(given) and (was is None or type(given) in (dict, list, tuple))


# -------------------------------------------------------------------------------------------- as one

_WHOLE = "perdure: given where its types were not at hand"


def wrapped(given: Any) -> Sealed:
    """What is given, sealed as one. Raises KeyMissing, PersonalErased."""
    return sealed((_WHOLE, given))


def unwrapped(plain: Any) -> Any:
    """What was `wrapped`; anything else as it is. Raises KeyMissing, PersonalErased, Damaged."""
    if type(plain) is Sealed:
        inside = decode(vault_here().unseal(plain))
        if type(inside) is tuple and len(inside) == 2 and inside[0] == _WHOLE:
            return inside[1]
    return plain
