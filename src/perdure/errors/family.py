"""What every error of perdure is: what happened, what is safe now, and a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar


class PerdureError(Exception):
    """An error of perdure: `what` happened, what is `safe` now, and a `remedy`."""

    code: ClassVar[str] = ""
    default_safe: ClassVar[str] = "Nothing was written and nothing was called."
    default_remedy: ClassVar[str] = ""

    def __init__(
        self,
        what: str,
        *,
        safe: str | None = None,
        remedy: str | None = None,
        where: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.safe = self.default_safe if safe is None else safe
        self.remedy = self.default_remedy if remedy is None else remedy
        self.where = where
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        """Facts read as attributes: `error.path`, `error.type_name`."""
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.what}" if self.code else self.what]
        if self.where:
            lines.append(f"  where   {self.where}")
        if self.safe:
            lines.append(f"  safe    {self.safe}")
        if self.remedy:
            lines.append(f"  remedy  {self.remedy}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"safe": self.safe, "remedy": self.remedy, "where": self.where, "facts": self.facts}
        return (type(self), (self.what,), state)


def said_by(error: BaseException) -> str:
    """What an error says: of ours what happened; one of a user's may fail even at saying something."""
    if isinstance(error, PerdureError):
        return error.what
    try:
        return str.__str__(str(error))
    except Exception as failure:  # noqa: BLE001  (a user's __str__ may do anything)
        return f"(its text cannot be made: {type(failure).__qualname__})"


def catalogue() -> Iterator[type[PerdureError]]:
    """Every error class that has a code, in order of code."""

    def below(cls: type[PerdureError]) -> Iterator[type[PerdureError]]:
        for child in cls.__subclasses__():
            if child.code:
                yield child
            yield from below(child)

    yield from sorted(below(PerdureError), key=lambda cls: cls.code)
