"""Then and now: each difference between two codes, and what it means for a run."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from perdure.codec import decode, encode
from perdure.errors import BadSetting
from perdure.recovery.deploys import Carrier, DeployPolicy, RunKey
from perdure.recovery.manifest import Difference, Entry, Manifest, compare
from perdure.state import events as e
from perdure.state.record import ApprovalRecord, CallRecord, RunRecord

PAY = Entry("irreversible", b"a" * 16, b"r" * 16)
THEN = Manifest(
    "desk", "1", 1, 1, 1, {"pay": PAY}, {"order": Entry("read", b"o" * 16, b"p" * 16)}, {"chat": "m-1"}
)
RUN = RunRecord(seq=9, agent="desk", version="1", state_version=1)


def unknown(name: str = "pay", effect: Any = "irreversible") -> RunRecord:
    """A run with a call whose outcome is not known."""
    call = CallRecord("1:0", name, effect, (), b"d", "key", "unknown", 1)
    return replace(RUN, calls={"1:0": call})


def asking(name: str = "pay") -> RunRecord:
    """A run that waits for a permission."""
    head = e.CallHead(name, "irreversible", (), b"d")
    asked = ApprovalRecord("1:0", "a-1", head, b"s", 1, "", 1, 0, (), 3, 1)
    return replace(RUN, approvals={"1:0": asked})


def verdicts(
    now: Manifest, run: RunRecord = RUN, policy: DeployPolicy | None = None, then: Manifest = THEN
) -> list[tuple[str, str, str]]:
    """Kind, name and verdict of each difference."""
    found = compare(run, then, now, policy or DeployPolicy())
    return [(one.kind, one.name, one.verdict) for one in found]


def with_pay(entry: Entry) -> Manifest:
    """The code with another pay."""
    return replace(THEN, tools={"pay": entry})


CHANGED = [replace(PAY, arguments=b"b" * 16), replace(PAY, result=b"q" * 16), replace(PAY, effect="read")]
KINDS = ["arguments", "result", "effect"]


def test_the_same_code_has_no_difference() -> None:
    assert verdicts(THEN) == []
    assert Manifest.read(decode(encode(THEN.plain()))) == THEN
    assert Manifest.read({**THEN.plain(), "later": 1}) == THEN


def test_a_new_tool_means_nothing() -> None:
    more = replace(THEN, tools={"pay": PAY, "look": Entry("read", b"", b"")})
    assert verdicts(more) == [("tool-added", "look", "go-on")]
    assert verdicts(more, policy=DeployPolicy(tool_added="hold")) == [("tool-added", "look", "hold")]


def test_a_tool_that_is_gone_is_recorded_unless_it_is_in_use() -> None:
    bare = replace(THEN, tools={})
    assert verdicts(bare) == [("tool-removed", "pay", "recorded")]
    assert verdicts(bare, unknown()) == [("tool-removed", "pay", "hold")]
    assert verdicts(bare, unknown(effect="read")) == [("tool-removed", "pay", "recorded")]
    assert verdicts(bare, asking()) == [("tool-removed", "pay", "hold"), ("approval", "a-1", "void")]
    assert verdicts(bare, unknown(), DeployPolicy(tool_in_use="recorded")) == [
        ("tool-removed", "pay", "recorded")
    ]
    assert verdicts(bare, policy=DeployPolicy(tool_removed="hold")) == [("tool-removed", "pay", "hold")]


@pytest.mark.parametrize(("entry", "kind"), list(zip(CHANGED, KINDS, strict=True)), ids=KINDS)
def test_a_tool_that_changed_is_recorded_unless_it_is_in_use(entry: Entry, kind: str) -> None:
    now = with_pay(entry)
    assert verdicts(now) == [(kind, "pay", "recorded")]
    assert verdicts(now, unknown()) == [(kind, "pay", "hold")]
    assert verdicts(now, unknown("other")) == [(kind, "pay", "recorded")]
    assert verdicts(now, asking()) == [(kind, "pay", "hold"), ("approval", "a-1", "void")]
    assert verdicts(now, policy=DeployPolicy(tool_changed="go-on")) == [(kind, "pay", "go-on")]


def test_a_declared_new_name_is_the_same_tool() -> None:
    now = replace(THEN, tools={"refund": PAY})
    assert verdicts(now) == [("tool-removed", "pay", "recorded"), ("tool-added", "refund", "go-on")]
    policy = DeployPolicy(renamed={"pay": "refund"})
    assert verdicts(now, policy=policy) == [("tool-renamed", "pay", "recorded")]
    assert verdicts(now, unknown(), policy) == [("tool-renamed", "pay", "recorded")]
    assert verdicts(now, asking(), policy) == [
        ("tool-renamed", "pay", "recorded"),
        ("approval", "a-1", "void"),
    ]


def test_a_model_that_is_gone_needs_a_replacement() -> None:
    now = replace(THEN, models={"chat": "m-3"})
    assert verdicts(now) == [("model-removed", "m-1", "hold")]
    chained = DeployPolicy(models={"m-1": "m-2", "m-2": "m-3"})
    assert verdicts(now, policy=chained) == [("model-removed", "m-1", "recorded")]
    assert verdicts(now, policy=DeployPolicy(models={"m-1": "m-9"})) == [("model-removed", "m-1", "hold")]
    assert verdicts(now, policy=DeployPolicy(model_removed="go-on")) == [("model-removed", "m-1", "go-on")]
    kept = replace(THEN, models={"chat": "m-3", "talk": "m-1"})
    assert verdicts(kept) == [("model-changed", "chat", "recorded")]
    assert DeployPolicy(models={"a": "b", "b": "a"}).model_for("a") == "b"


def test_whoever_is_asked_for_now_must_be_known() -> None:
    now = replace(THEN, authorizes=True)
    assert verdicts(now) == [("principal", "", "hold")]
    assert verdicts(now, replace(RUN, principal=b"who")) == []
    assert verdicts(now, then=now) == []


def test_states_migrate_along_a_chain_or_the_run_is_not_carried_on() -> None:
    now = replace(THEN, state_version=3, oldest=1)
    assert verdicts(now) == [("state-older", "", "migrate")]
    assert verdicts(now, policy=DeployPolicy(state_older="hold")) == [("state-older", "", "hold")]
    assert verdicts(replace(now, oldest=2)) == [("state-gap", "", "stranded")]
    assert verdicts(now, replace(RUN, state_version=4)) == [("state-newer", "", "stranded")]
    assert verdicts(THEN, then=replace(THEN, format=2)) == [("format-newer", "", "stranded")]


def test_versions_are_carried_on_by_their_rule() -> None:
    now = replace(THEN, version="2")
    assert verdicts(now) == [("version", "", "recorded")]
    assert verdicts(now, then=replace(THEN, pinned=True)) == [("version", "", "stranded")]
    assert verdicts(now, policy=DeployPolicy(compatible=["0"])) == [("version", "", "stranded")]
    assert verdicts(now, replace(RUN, version="10")) == [("version", "", "stranded")]


@pytest.mark.parametrize(
    ("version", "own", "carried"),
    [
        ("1", "1", True),
        ("1", "2", True),
        ("2", "1", False),
        ("1.9", "1.10", True),
        ("1.10", "1.9", False),
        ("v2", "v1", False),
        ("9f1", "a02", True),
        ("a02", "9f1", True),
        ("2", "a02", True),
    ],
)
def test_without_a_rule_numbers_do_not_go_back(version: str, own: str, carried: bool) -> None:
    assert DeployPolicy().carries(version, own) is carried


def test_a_rule_is_a_list_or_a_function() -> None:
    assert DeployPolicy(compatible=["1"]).carries("1", "3")
    assert not DeployPolicy(compatible=["1"]).carries("2", "3")
    assert DeployPolicy(compatible=[]).carries("3", "3")
    assert DeployPolicy(compatible=lambda version: version.startswith("2024.")).carries("2024.7", "3")
    wrong: Any
    for wrong in ({"tool_added": "void"}, {"state_older": "go-on"}, {"compatible": "1"}):
        with pytest.raises(BadSetting):
            DeployPolicy(**wrong)


def test_differences_are_told_in_a_line() -> None:
    told = Difference("effect", "pay", "irreversible", "read", "hold", "")
    assert str(told) == "effect pay: irreversible -> read"
    assert str(Difference("tool-removed", "pay", "tool", "", "recorded", "")) == "tool-removed pay: tool"


# ---------------------------------------------------------------------------------------------- run keys


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (RunKey("1"), "1"),
        (RunKey("2", 3), "2 state-3"),
        (RunKey("2", 3, True, 2, ("0f", "1e")), "2 state-3 pinned format-2 unfit-0f unfit-1e"),
        (RunKey(""), ""),
    ],
)
def test_a_key_is_read_as_it_was_written(key: RunKey, text: str) -> None:
    assert str(key) == text
    assert RunKey.read(text) == key


def test_a_key_remembers_the_newest_marks() -> None:
    key = RunKey("1")
    for mark in "abcdefghij":
        key = key.failed(mark)
    assert key.unfit == tuple("cdefghij")
    assert key.failed("c") == key


CODE = Carrier("2", 3, 2, 1, "m1", DeployPolicy())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2 state-3", ""),
        ("1 state-2", ""),
        ("2 state-3 pinned", ""),
        ("1 state-3 pinned", "pinned to version 1"),
        ("3 state-3", "on version 3"),
        ("2 state-4", "versions up to 3"),
        ("1", "no migration leads from there to 3"),
        ("2 state-3 format-2", "newer perdure"),
        ("2 state-3 sharded", "newer perdure"),
        ("2 state-x", "newer perdure"),
        ("1 state-2 unfit-m1", "failed"),
        ("1 state-2 unfit-m2", ""),
        ("2 state-3 unfit-m1", "failed"),
    ],
)
def test_a_code_says_which_runs_it_does_not_carry_on(text: str, why: str) -> None:
    refusal = CODE.refusal(RunKey.read(text))
    assert (why in refusal) if why else not refusal
    assert not CODE.refusal(RunKey.read("1 state-2 unfit-m1"), again=True)
