"""Secrets: a name is kept, a value is used.

A `Secret` is its name, wherever it is written, shown, compared or logged. Its value comes from outside (the
environment, or the resolver of the Runtime) each time that it is revealed, and this room remembers which
values it has seen, so that they are recognised where they leak. Knows no event and no store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar, final

from perdure.errors import BadSetting, SecretMissing

T = TypeVar("T", bound=str)

Resolver: TypeAlias = Mapping[str, str] | Callable[[str], str | None]
"""Where the values of secrets come from: names to values. None or a KeyError: it has none of this name."""

NAME_MOST = 200
"""Characters of a secret's name."""

SHORTEST = 8
"""Values with fewer characters are not looked for: they would be found in text that has nothing to do with
them.
"""

FORMS_MOST = 1024
"""So many written forms are looked for; beyond, those that were learned first are forgotten."""


@final
class Secret(Generic[T]):
    """A secret by its name: `Secret("STRIPE_KEY")`. State, goals, arguments and results may hold it.

    The journal, every look at it, `repr`, `str` and JSON have the name alone; `reveal()` gives the value,
    live and replayed alike. A model can name no secret: in a tool's schema a parameter of this type is left
    out, so it needs a default, or is given by the step.
    """

    __slots__ = ("name",)

    name: str
    """The name, as the resolver knows it."""

    def __init__(self, name: str) -> None:
        if not 0 < len(name) <= NAME_MOST or not name.isprintable():
            raise BadSetting(f"{name!r:.80} cannot be the name of a secret")
        object.__setattr__(self, "name", name)
        KNOWN.any_named = True

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Secret has only its name: {name} cannot be set")

    def reveal(self) -> T:
        """The value, from the resolver of the Runtime that runs this code, else from the environment.

        Asked for anew each time, so that a value that was changed is used from then on. Raises SecretMissing.
        """
        value: Any = _resolved(self.name, resolver_scope.get())
        KNOWN.learn(self.name, value)
        return value  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def __str__(self) -> str:
        return mark_of(self.name)

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self.name))

    def __copy__(self) -> Secret[T]:
        return self

    def __deepcopy__(self, memo: object) -> Secret[T]:
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """A field of a pydantic model takes a Secret and nothing else."""
        from pydantic_core import core_schema

        return core_schema.is_instance_schema(cls)

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (self.name,)


resolver_scope: ContextVar[Resolver | None] = ContextVar("perdure_secrets", default=None)
"""Where the values come from in this context; None is the environment."""


def mark_of(name: str) -> str:
    """What stands in the place of a secret's value."""
    return f"[secret {name}]"


class Outside:
    """Where values come from when no Runtime says otherwise: filled by the room that may look outside."""

    environment: Resolver = {}  # noqa: RUF012  (one for the process, put here once)


def _resolved(name: str, resolver: Resolver | None) -> str:
    place = "the environment" if resolver is None else "the Runtime's resolver"
    found: object = None
    try:
        source = Outside.environment if resolver is None else resolver
        found = source(name) if callable(source) else source.get(name)
    except LookupError:
        found = None
    except Exception as error:  # noqa: BLE001  (a user's resolver may raise anything)
        # Without its cause and its text: either may hold what the resolver knows.
        what = f"the secret {name} could not be had: {place} raised {type(error).__qualname__}"
        raise SecretMissing(what, name=name) from None
    if not isinstance(found, str) or not found:
        raise SecretMissing(f"the secret {name} is missing: {place} has no value of this name", name=name)
    return found


class Known:
    """The values that secrets have had in this process, in the forms in which they leak.

    `any_named`: whether a Secret was ever made here; `forms`: what is looked for, as UTF-8. While nothing is
    known, every question is answered by looking at an empty tuple.
    """

    __slots__ = ("_names", "_pattern", "any_named", "forms")

    def __init__(self) -> None:
        self.any_named = False
        self.forms: tuple[bytes, ...] = ()
        self._names: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, name: str, value: str) -> None:
        """Look for this value from now on."""
        if len(value) < SHORTEST or self._names.get(value) == name:
            return
        for form in written_forms(value):
            self._names.pop(form, None)
            self._names[form] = name
        while len(self._names) > FORMS_MOST:
            del self._names[next(iter(self._names))]
        self._pattern = None
        self.forms = tuple([form.encode("utf-8", "surrogatepass") for form in self._names])

    def found_in(self, data: bytes) -> str | None:
        """The name of a secret whose value stands in the bytes of a value, of a text, of a body."""
        for form in self.forms:
            if form in data:
                return self._names.get(form.decode("utf-8", "surrogatepass"))
        return None

    def without(self, text: str) -> str:
        """The text with a mark in the place of each known value."""
        if self._pattern is None:
            if not self._names:
                return text
            longest_first = sorted(self._names, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        return self._pattern.sub(lambda found: mark_of(self._names[found[0]]), text)

    def forget(self) -> None:
        """Know nothing again: for tests."""
        self._names.clear()
        self.forms, self._pattern = (), None


KNOWN = Known()
"""This process's."""


def written_forms(value: str) -> set[str]:
    """The value as it stands in text: itself, in a URL, in JSON or a repr, in base64, in hexadecimal."""
    import json
    from base64 import b64encode, urlsafe_b64encode

    data = value.encode("utf-8", "surrogatepass")
    forms = {
        value,
        _percent(data, ""),
        _percent(data, "/"),
        _percent(data, " ").replace(" ", "+"),
        repr(value)[1:-1],
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        data.hex(),
        b64encode(data).decode("ascii").rstrip("="),
        urlsafe_b64encode(data).decode("ascii").rstrip("="),
    }
    return {form for form in forms if len(form) >= SHORTEST}


_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _percent(data: bytes, kept: str) -> str:
    """As it stands in a URL."""
    return "".join(
        [chr(byte) if chr(byte) in _UNRESERVED or chr(byte) in kept else f"%{byte:02X}" for byte in data]
    )
