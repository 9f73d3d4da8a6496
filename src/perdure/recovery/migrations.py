"""From an older shape of a run's state to today's: a chain of the user's functions over plain data.

A chain leads from version to version, one step each, so that it can have no cycle; a gap is an error where it
is declared. What a chain makes is checked against the state's type before anything is written (law 11).
Calls the user's functions and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, TypeAlias

from msgspec import Struct

from perdure.codec import Shape, decode, digest, encode
from perdure.codec import plain as plain_of
from perdure.errors import MigrationFailed, MigrationGap, ShapeMismatch, StateNewer, said_by

Migrate: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Plain state of one version -> plain state of the next."""


class Migration(Struct, frozen=True):
    """One step of a chain. `lossy`: what it leaves out is kept for good. `source`: where it is declared."""

    fn: Migrate
    lossy: bool = False
    source: str = ""


class Migrated(Struct, frozen=True):
    """What a chain made: plain state, canonical for its type; `lossy` if any step was."""

    state: Any
    from_version: int
    to_version: int
    lossy: bool


class Chain(Struct, frozen=True):
    """The migrations of one agent, by the version that each begins at, up to `to_version`."""

    agent: str
    to_version: int
    steps: Mapping[int, Migration]

    @property
    def oldest(self) -> int:
        """The oldest version from which the chain leads to today's."""
        version = self.to_version
        while version - 1 in self.steps:
            version -= 1
        return version

    @property
    def mark(self) -> str:
        """Twelve characters that differ once a migration's code does, wherever it stands."""
        told = [f"{version} {_code(step.fn)}" for version, step in sorted(self.steps.items())]
        return digest(str(self.to_version).encode(), *(text.encode() for text in told)).hex()[:12]

    def check(self) -> None:
        """Raises MigrationGap (M302) if a version between the first migration and today's has none."""
        start = min(self.steps, default=self.to_version)
        missing = [version for version in range(start, self.to_version) if version not in self.steps]
        if missing:
            raise self._gap(start, missing[0])

    def apply(self, plain: Any, from_version: int, shape: Shape[Any]) -> Migrated:
        """Today's state of a run whose plain state has an older version; `plain` itself is not changed.

        Raises StateNewer (M303), MigrationGap (M302), MigrationFailed (M306), and ShapeMismatch (M301) if
        what comes out does not fit the state's type.
        """
        if from_version > self.to_version:
            raise StateNewer(
                f"the state has version {from_version}; agent {self.agent} reads up to {self.to_version}"
            )
        state, lossy = decode(encode(plain)), False  # a function may change what it is given
        for version in range(from_version, self.to_version):
            step = self.steps.get(version)
            if step is None:
                raise self._gap(from_version, version)
            state = self._one(step, version, state)
            lossy = lossy or step.lossy
        try:
            whole = plain_of(shape.restore(state, where="$.state"))
        except ShapeMismatch as error:
            raise ShapeMismatch(
                f"migrated from version {from_version} to {self.to_version}, {error.what}",
                path=getattr(error, "path", "$.state"),
                expected=getattr(error, "expected", ""),
                found=getattr(error, "found", ""),
            ) from error
        return Migrated(whole, from_version, self.to_version, lossy)

    def _one(self, step: Migration, version: int, state: Any) -> Any:
        try:
            made = step.fn(state)
            return decode(encode(plain_of(made, where="$.state"), where="$.state"))
        except (Exception, SystemExit) as error:
            what = said_by(error)
            raise MigrationFailed(
                f"the migration of {self.agent} from version {version} raised {type(error).__name__}: {what}",
                where=step.source or None,
                version=version,
            ) from error

    def _gap(self, start: int, missing: int) -> MigrationGap:
        links = range(start, self.to_version)
        shown = ", ".join(f"{at} -> {at + 1 if at in self.steps else '?'}" for at in links)
        return MigrationGap(
            f"agent {self.agent} has no migration from version {missing} to {missing + 1}: {shown}",
            remedy=f"@agent.migration({missing})",
            missing=missing,
        )


def _code(fn: Any) -> str:
    """What a function does, without where it stands; its name where there is no code to read."""
    code = getattr(fn, "__code__", None)
    return _of(code) if isinstance(code, CodeType) else repr(getattr(fn, "__qualname__", type(fn)))


def _of(code: CodeType) -> str:
    constants = [_of(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
