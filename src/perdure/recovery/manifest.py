"""What an agent's code was when a run last accepted it, against what it is now.

`Manifest` is what the journal keeps of a code; `compare` tells every difference, and what it means for one
run under a policy. Pure: it decides and never acts. The first match of a stronger verdict wins where a
caller acts: stranded, hold, migrate, void, recorded, go-on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from perdure.recovery.deploys import Choice, DeployPolicy
from perdure.state.record import RunRecord
from perdure.state.undo import undone_path

Verdict: TypeAlias = Literal["go-on", "recorded", "void", "hold", "migrate", "stranded"]
"""What a difference means: nothing; it is told in `run.resumed`; a permission is void; a person decides; the
state is migrated; this code does not carry the run on, and writes nothing."""

Kind: TypeAlias = Literal[
    "tool-added",
    "tool-removed",
    "tool-renamed",
    "arguments",
    "result",
    "effect",
    "premises",
    "approval",
    "model-removed",
    "model-changed",
    "principal",
    "version",
    "state-older",
    "state-newer",
    "state-gap",
    "format-newer",
]
"""What differs."""


class Entry(Struct, frozen=True):
    """A tool or fact: its effect class ("by arguments" if that decides), and digests of what it takes and
    gives. `premises`: the facts that it rests on.
    """

    effect: str
    arguments: bytes
    result: bytes
    premises: tuple[str, ...] = ()


class Manifest(Struct, frozen=True):
    """An agent's code as far as open runs rest on it.

    `models`: names of declared model functions to names of models. `oldest`: the oldest state version from
    which its migrations lead to `state_version`. `authorizes`: whether it asks who may make a call.
    """

    agent: str
    version: str = "1"
    state_version: int = 1
    oldest: int = 1
    format: int = 1
    tools: dict[str, Entry] = {}
    facts: dict[str, Entry] = {}
    models: dict[str, str] = {}
    authorizes: bool = False
    pinned: bool = False

    def plain(self) -> dict[str, Any]:
        """As the journal keeps it."""
        entries = {
            group: {name: _entry(one) for name, one in sorted(found.items())}
            for group, found in (("tools", self.tools), ("facts", self.facts))
        }
        return {
            "agent": self.agent,
            "version": self.version,
            "state_version": self.state_version,
            "format": self.format,
            **entries,
            "models": dict(sorted(self.models.items())),
            **({"authorizes": True} if self.authorizes else {}),
            **({"pinned": True} if self.pinned else {}),
        }

    @staticmethod
    def read(plain: Mapping[str, Any]) -> Manifest:
        """What the journal kept; words that are not known here are passed over."""

        def entries(group: str) -> dict[str, Entry]:
            return {
                name: Entry(one["effect"], one["arguments"], one["result"], tuple(one.get("premises", ())))
                for name, one in plain.get(group, {}).items()
            }

        state = int(plain.get("state_version", 1))
        return Manifest(
            str(plain.get("agent", "")),
            str(plain.get("version", "")),
            state,
            state,
            int(plain.get("format", 1)),
            entries("tools"),
            entries("facts"),
            dict(plain.get("models", {})),
            bool(plain.get("authorizes", False)),
            bool(plain.get("pinned", False)),
        )


def _entry(one: Entry) -> dict[str, Any]:
    told: dict[str, Any] = {"effect": one.effect, "arguments": one.arguments, "result": one.result}
    return {**told, "premises": list(one.premises)} if one.premises else told


class Difference(Struct, frozen=True):
    """One difference. `name`: of the tool, fact, model or approval; `was` and `now` in words."""

    kind: Kind
    name: str
    was: str
    now: str
    verdict: Verdict
    why: str

    def __str__(self) -> str:
        """In one line, as `run.resumed` tells it."""
        change = f"{self.was} -> {self.now}" if self.was and self.now else self.was or self.now
        what = " ".join(part for part in (self.kind, self.name) if part)
        return f"{what}: {change}" if change else what


def compare(record: RunRecord, then: Manifest, now: Manifest, policy: DeployPolicy) -> tuple[Difference, ...]:
    """Every difference between the code that a run last accepted and today's, and what each means for it."""
    uses = _uses(record)
    found = [
        *_versions(record, then, now, policy),
        *_entries(_Look("tool", then.tools, now.tools, uses, policy)),
        *_entries(_Look("fact", then.facts, now.facts, uses, policy)),
        *_models(then, now, policy),
    ]
    if now.authorizes and not then.authorizes and record.principal is None:
        why = "the agent asks who may make its calls, and the run was started for nobody"
        found.append(Difference("principal", "", "not asked for", "asked for", "hold", why))
    return (*found, *_voided(record, found))


def _versions(record: RunRecord, then: Manifest, now: Manifest, policy: DeployPolicy) -> Iterator[Difference]:
    own, state = record.version or then.version, record.state_version
    if then.format > now.format:
        why = "it was written by a newer perdure"
        yield Difference("format-newer", "", str(then.format), str(now.format), "stranded", why)
    if own != now.version:
        carried = not then.pinned and policy.carries(own, now.version)
        verdict: Verdict = policy.version_changed if carried else "stranded"
        why = "" if carried else "the run is pinned" if then.pinned else "this code does not carry it on"
        yield Difference("version", "", own, now.version, verdict, why)
    versions = (str(state), str(now.state_version))
    if state > now.state_version:
        yield Difference("state-newer", "", *versions, "stranded", "its state was written by newer code")
    elif state < now.oldest:
        why = f"no migration leads from version {state} to {now.state_version}"
        yield Difference("state-gap", "", *versions, "stranded", why)
    elif state < now.state_version:
        yield Difference("state-older", "", *versions, policy.state_older, "")


class _Look(Struct, frozen=True):
    """One group of entries to compare: tools or facts."""

    noun: str
    then: Mapping[str, Entry]
    now: Mapping[str, Entry]
    uses: Mapping[str, str]
    policy: DeployPolicy

    def judged(self, name: str, choice: Choice) -> tuple[Verdict, str]:
        """What a change of this entry means, and why if more than the row says."""
        use = self.uses.get(name, "") if self.noun == "tool" else ""
        return (self.policy.tool_in_use, use) if use else (choice, "")


def _entries(look: _Look) -> Iterator[Difference]:
    policy, renamed = look.policy, look.policy.renamed
    taken = {new for old, new in renamed.items() if old in look.then and old not in look.now}
    for name, was in look.then.items():
        today = renamed.get(name, "") if name not in look.now else name
        if today not in look.now:
            yield Difference("tool-removed", name, look.noun, "", *look.judged(name, policy.tool_removed))
            continue
        if today != name:
            yield Difference("tool-renamed", name, name, today, policy.tool_renamed, "")
        verdict, why = look.judged(name, policy.tool_changed)
        for kind, one, other in _parts(was, look.now[today]):
            yield Difference(kind, name, one, other, verdict, why)
    for name in look.now:
        if name not in look.then and name not in taken:
            yield Difference("tool-added", name, "", look.noun, policy.tool_added, "")


def _parts(was: Entry, now: Entry) -> Iterator[tuple[Kind, str, str]]:
    if was.arguments != now.arguments:
        yield "arguments", was.arguments.hex()[:8], now.arguments.hex()[:8]
    if was.result != now.result:
        yield "result", was.result.hex()[:8], now.result.hex()[:8]
    if was.effect != now.effect:
        yield "effect", was.effect, now.effect
    if was.premises != now.premises:
        yield "premises", ", ".join(was.premises) or "none", ", ".join(now.premises) or "none"


def _models(then: Manifest, now: Manifest, policy: DeployPolicy) -> Iterator[Difference]:
    listed = set(now.models.values())
    for model in dict.fromkeys(then.models.values()):
        if model in listed:
            continue
        following = policy.model_for(model)
        if following in listed:
            yield Difference("model-removed", model, model, following, "recorded", "the declared replacement")
        else:
            why = "it is no longer declared, and no replacement is"
            yield Difference("model-removed", model, model, "", policy.model_removed, why)
    for name, model in then.models.items():
        today = now.models.get(name)
        if today is not None and today != model and model in listed:
            yield Difference("model-changed", name, model, today, policy.model_changed, "")


def _uses(record: RunRecord) -> dict[str, str]:
    """The tools that the open step cannot do without, each with why."""
    uses = {
        asked.head.name: f"approval {asked.id} is open" for asked in record.approvals.values() if asked.open
    }
    for call in record.calls.values():
        if call.standing in ("open", "unknown") and call.effect != "read" and not undone_path(call.path):
            uses[call.name] = f"the outcome of call {call.path} is not known"
    return uses


def _voided(record: RunRecord, found: list[Difference]) -> Iterator[Difference]:
    """The permissions that rest on a tool which is not what it was."""
    changed = {one.name: one for one in found if one.kind in _TOUCHING}
    for asked in record.approvals.values():
        if asked.open and (one := changed.get(asked.head.name)) is not None:
            why = _TOUCHING[one.kind].format(asked.head.name)
            yield Difference("approval", asked.id, asked.head.name, "", "void", why)


_TOUCHING: dict[Kind, str] = {
    "tool-removed": "{} is no longer there",
    "tool-renamed": "{} has another name",
    "arguments": "the types of {} changed",
    "result": "the types of {} changed",
    "effect": "the effect class of {} changed",
}
"""Differences of a tool after which nobody has agreed to what it does now, in words."""
