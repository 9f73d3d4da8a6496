"""Where a new run is to stand among those that wait for a worker: what a caller may ask for, and its checks.

Knows no store's rows; whose turn it is, is decided where leases are given.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypedDict

from perdure.agent.policy import is_a
from perdure.errors import BadSetting
from perdure.store.protocol import PRIORITIES, Placement

LONGEST = 200
"""The most characters of a queue, a tag or a key."""


class Placing(TypedDict, total=False):
    """Keyword options for a new run: where it stands among those that wait for a worker.

    `queue`: workers that are given queues take runs of these alone; "default" if none is named. `tags`: only
    workers that offer all of them take the run ("gpu"). `priority`: -100 to 100; higher first among the runs
    of one agent, and a minute of waiting counts like one step. `limit_key`: at most `key_limit` (1 if not
    given) of the runs that share it are at work at once, whatever workers there are. A run that exists stays
    where it stands; its children stand there too.
    """

    queue: str
    tags: Collection[str]
    priority: int
    limit_key: str
    key_limit: int


def placement_of(placing: Placing) -> Placement:
    """What was asked for, as a store keeps it. Raises BadSetting."""
    for name in placing:
        if name not in Placing.__annotations__:
            raise BadSetting(f"a run has no option {name!r}: {', '.join(Placing.__annotations__)}")
    queue = word_of(placing.get("queue", "default"), "queue")
    tags = words_of(placing.get("tags", ()), "tags")
    priority = placing.get("priority", 0)
    if not is_a(priority, int) or isinstance(priority, bool) or abs(priority) > PRIORITIES:
        raise BadSetting(f"priority={priority!r}: a whole number from {-PRIORITIES} to {PRIORITIES}")
    key, most = placing.get("limit_key", ""), placing.get("key_limit", 1)
    if key != "" or "key_limit" in placing:
        word_of(key, "limit_key")
    if not is_a(most, int) or isinstance(most, bool) or not 1 <= most < 1 << 31:
        raise BadSetting(f"key_limit={most!r}: at least one run of a key is at work at once")
    return Placement(queue, tuple(sorted(tags)), priority, key, most)


def words_of(given: Collection[str], name: str) -> frozenset[str]:
    """Tags or queues, checked. Raises BadSetting."""
    if isinstance(given, str):
        raise BadSetting(f"{name}={given!r} is one text: write {name}=[{given!r}]")
    return frozenset(word_of(one, name) for one in given)


def word_of(text: str, name: str) -> str:
    """A queue, tag or key, checked. Raises BadSetting."""
    fine = is_a(text, str) and 0 < len(text) <= LONGEST and text.isprintable() and " " not in text
    if not fine or "," in text:
        what = f"{name}={text!r:.80}: 1 to {LONGEST} printable characters, no space and no comma"
        raise BadSetting(what)
    return text
