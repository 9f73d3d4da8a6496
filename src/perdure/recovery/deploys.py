"""What an agent says about its open runs when its code changes, and which runs a code carries on at all.

`DeployPolicy` is what a user declares; a `RunKey` is what a run's row tells of the code that it needs, in
words that a claim can be filtered by without loading the run (law 11: what a code cannot carry on it never
claims). Pure: knows no agent, no store and no event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from perdure.errors import BadSetting

Choice: TypeAlias = Literal["go-on", "recorded", "hold"]
"""What a difference does to a run that is resumed: nothing, a line in its journal, or a person is asked."""

_ROWS = (
    "tool_added",
    "tool_removed",
    "tool_renamed",
    "tool_changed",
    "tool_in_use",
    "model_removed",
    "model_changed",
    "version_changed",
)


@dataclass(frozen=True, slots=True)
class DeployPolicy:
    """What becomes of an agent's open runs when its code changes: `Agent(..., on_change=DeployPolicy(...))`.

    Each row is "go-on", "recorded" (told in `run.resumed`) or "hold" (a person decides). `tool_in_use` is
    for a tool that was removed or changed while a call of it is unknown or a permission for it is open; such
    a permission is void in any case. `tool_changed`: other arguments, result, effect class or premises.
    `state_older`: "migrate", or "hold" until somebody runs `perdure migrate`.

    `renamed` maps old names of tools to today's, `models` a model that is no longer declared to the one that
    takes its place. `compatible`: the versions whose runs this code carries on, as names or a function of
    the name; its own is always among them. Without it, versions that are numbers are carried on by the same
    and higher ones, and others by all. `pin`: a run that this code starts stays on this very version.
    Raises BadSetting (C101).
    """

    tool_added: Choice = "go-on"
    tool_removed: Choice = "recorded"
    tool_renamed: Choice = "recorded"
    tool_changed: Choice = "recorded"
    tool_in_use: Choice = "hold"
    model_removed: Choice = "hold"
    model_changed: Choice = "recorded"
    version_changed: Choice = "recorded"
    state_older: Literal["migrate", "hold"] = "migrate"
    renamed: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    compatible: Collection[str] | Callable[[str], bool] | None = None
    pin: bool = False

    def __post_init__(self) -> None:
        for name in _ROWS:
            chosen = getattr(self, name)
            if chosen not in get_args(Choice):
                raise BadSetting(f"DeployPolicy({name}={chosen!r}): one of {', '.join(get_args(Choice))}")
        if self.state_older not in ("migrate", "hold"):
            raise BadSetting(f"DeployPolicy(state_older={self.state_older!r}): one of migrate, hold")
        if isinstance(self.compatible, str):
            raise BadSetting(f"DeployPolicy(compatible={self.compatible!r}): a collection of versions")

    def carries(self, version: str, own: str) -> bool:
        """Whether code of version `own` carries on an unpinned run that was last on `version`."""
        if version == own:
            return True
        rule = self.compatible
        if rule is None:
            return not _is_higher(version, own)
        return bool(rule(version)) if callable(rule) else version in rule

    def model_for(self, model: str) -> str:
        """The model that takes this one's place, through several replacements; itself if none is declared."""
        seen = {model}
        while (following := self.models.get(model)) is not None and following not in seen:
            seen.add(following)
            model = following
        return model


_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)")


def _is_higher(version: str, own: str) -> bool:
    """Whether both are numbers such as 2 or 1.10.3, and the first is the higher one."""
    one, other = _NUMBERS.fullmatch(version), _NUMBERS.fullmatch(own)
    if one is None or other is None:
        return False
    return [int(part) for part in one[1].split(".")] > [int(part) for part in other[1].split(".")]


# ----------------------------------------------------------------------------------------------- run keys

UNFIT_KEPT = 8
"""A run remembers so many codes whose migrations failed for it: more are never deployed side by side."""

_WORD = re.compile(r"(state|format|unfit)-(\w+)")


class RunKey(Struct, frozen=True):
    """What a run needs of the code that carries it on, as its row tells: "2 state-3 pinned".

    `version`: of the agent's code. `state`: the state's version. `format`: of the newest bytes. `unfit`:
    marks of codes whose migrations did not bring its state over. `strange`: words that only a newer perdure
    knows, so that this one leaves the run alone.
    """

    version: str
    state: int = 1
    pinned: bool = False
    format: int = 1
    unfit: tuple[str, ...] = ()
    strange: bool = False

    @staticmethod
    def read(text: str) -> RunKey:
        """The key that a row tells."""
        version, *words = text.split(" ") if text else [""]
        key = RunKey(version)
        for word in words:
            found = _WORD.fullmatch(word)
            if word == "pinned":
                key = replace(key, pinned=True)
            elif found is None or (found[1] != "unfit" and not found[2].isdecimal()):
                key = replace(key, strange=True)
            elif found[1] == "state":
                key = replace(key, state=int(found[2]))
            elif found[1] == "format":
                key = replace(key, format=int(found[2]))
            else:
                key = replace(key, unfit=(*key.unfit, found[2]))
        return key

    def __str__(self) -> str:
        """As the row tells it; what is usual is left out."""
        words = [self.version]
        words += [f"state-{self.state}"] if self.state != 1 else []
        words += ["pinned"] if self.pinned else []
        words += [f"format-{self.format}"] if self.format != 1 else []
        return " ".join([*words, *(f"unfit-{mark}" for mark in self.unfit)])

    def failed(self, mark: str) -> RunKey:
        """The key after the migrations of the code `mark` have failed."""
        if mark in self.unfit:
            return self
        return replace(self, unfit=(*self.unfit, mark)[-UNFIT_KEPT:])


class Carrier(Struct, frozen=True):
    """A code that carries runs on: its version, the state versions that it reads and can migrate from
    (`oldest` to `state`), and the `mark` of its migrations and types.
    """

    version: str
    state: int
    oldest: int
    format: int
    mark: str
    policy: DeployPolicy

    def refusal(self, key: RunKey, *, again: bool = False) -> str:
        """Why it does not carry on a run of this key; empty if it does.

        `again`: migrations that have failed before count as not tried yet.
        """
        own = f"this code is version {self.version}"
        if key.strange or key.format > self.format:
            return f"it was written by a newer perdure (format {key.format}; this one reads {self.format})"
        if key.pinned and key.version != self.version:
            return f"it is pinned to version {key.version}; {own}"
        if not key.pinned and not self.policy.carries(key.version, self.version):
            return f"it is on version {key.version}, which this code does not carry on; {own}"
        if key.state > self.state:
            return f"its state has version {key.state}; this code knows versions up to {self.state}"
        if key.state < self.oldest:
            return f"its state has version {key.state}, and no migration leads from there to {self.state}"
        if self.mark in key.unfit and not again:
            return (
                f"this code has failed to take over its goal or state (version {key.state}), and would again"
            )
        return ""
