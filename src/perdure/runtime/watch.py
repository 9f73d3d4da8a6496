"""One list of the live state, watched from commit to commit: what has become of its elements?

An element is unchanged if it is the very object of the last commit and its block finds it intact inside;
everything else is lowered and compared with the committed plain form. Law 18 rests on this file together with
`tree` and `block`. The digest of the list is taken up where it was left, never made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, Final

from msgspec import Struct

from perdure.codec import Rolling, encode
from perdure.codec.plain import ATOMS, Refused, Walk, lower
from perdure.codec.value import written
from perdure.errors import NotStorable
from perdure.runtime.block import Block
from perdure.runtime.scribe import keys_of
from perdure.state.patch import Grown, same

BLOCK: Final = 128
"""Elements that are watched together: an element that changed costs a closer look at its block."""

MARK: Final = 256
"""A list's digest can be taken up again after each so many elements."""

RECENT: Final = 8
"""And after each of the last so many: what changes is mostly near the end."""


class Scan(Struct, eq=False):
    """One look at a watched list. `plain`: its plain form, sharing with the committed one what is unchanged;
    `anew`: indices of elements to be restored anew, a range if nothing was done but to append; `renewed`:
    their plain forms. At the beginning, `kept` elements are the very objects of the last commit, and `steady`
    have its content. `items`: the elements, if they are not the committed ones, in their order, and more.
    `tail`: the bytes of what was appended, if nothing else was done.
    """

    plain: list[Any] | Grown
    length: int
    anew: Sequence[int]
    renewed: list[Any]
    kept: int
    steady: int
    items: list[Any] | None = None
    tail: Sequence[bytes] = ()


class Watch:
    """One list. `plain` is its committed form, `elements` the live objects that stand for it, `path` where it
    is and `keys` the same as a fact has it.
    """

    __slots__ = ("_blocks", "_summed", "_sums", "depth", "elements", "keys", "path", "plain")

    def __init__(self, elements: list[Any], plain: list[Any], path: tuple[str, ...]) -> None:
        self.path = path
        self.keys = keys_of(path)
        self.depth = len(path)
        self.elements = elements
        self.plain = plain
        self._blocks: list[Block] = []
        self._sums: list[Rolling] = [Rolling()]
        self._summed = False  # whether its digest was ever asked for
        self._watch_part(0, len(elements))

    def _watch_part(self, start: int, stop: int) -> None:
        """Watch the elements `start : stop`, which are not watched yet."""
        blocks, elements, stored = self._blocks, self.elements, self.plain
        while start < stop:
            if start == len(blocks) * BLOCK:
                blocks.append(Block())
            end = min(stop, start - start % BLOCK + BLOCK)
            blocks[start // BLOCK].add(start, elements[start:end], stored[start:end])
            start = end

    def suspects(self) -> list[int]:
        """Indices of committed elements that may have changed inside, in order."""
        out: list[int] = []
        for block in self._blocks:
            if block.spans or block.compared:
                out += block.suspects()
        return out

    def scan(self, live: list[Any], known: dict[int, bytes]) -> Scan:
        """What the list is now. `known` is given the bytes of plain forms that were written for it, by the
        object's identity. Raises NotStorable.
        """
        count = len(self.elements)
        suspects = self.suspects()
        tail = live[count:]
        if len(live) < count or not all(map(is_, self.elements, live)):
            return self._scan_moved(list.copy(live), set(suspects))
        length = count + len(tail)
        depth = self.depth + 1
        data = []
        for at, value in enumerate(tail):
            walk = Walk()
            tail[at] = plain = lowered(value, depth, walk)
            data.append(written(plain, walk))
            known[id(plain)] = data[at]
        anew = range(count, length)
        grown = Grown(self.plain, tail) if tail else self.plain
        if not suspects:
            return Scan(grown, length, anew, tail, count, count, None, data)
        old = self.plain
        renewed = self._lowered([live[at] for at in suspects])
        changed = [
            (at, value) for at, value in zip(suspects, renewed, strict=True) if not same(old[at], value)
        ]
        renewed += tail
        if not changed:
            return Scan(grown, length, [*suspects, *anew], renewed, count, count)
        now = old.copy()
        for at, value in changed:
            now[at] = value
        now += tail
        return Scan(now, length, [*suspects, *anew], renewed, count, changed[0][0])

    def _scan_moved(self, items: list[Any], suspects: set[int]) -> Scan:
        """The same after elements were removed, inserted or replaced: they are found again by identity."""
        old = self.plain
        place = {id(element): at for at, element in enumerate(self.elements)}
        source = [place.get(id(item)) for item in items]
        unknown = [at for at, before in enumerate(source) if before is None or before in suspects]
        lowered = dict(zip(unknown, self._lowered([items[at] for at in unknown]), strict=True))
        now: list[Any] = []
        anew: list[int] = []
        used: set[int] = set()
        for at, before in enumerate(source):
            if before is not None and before not in suspects:
                now.append(old[before])
                if before in used:
                    anew.append(at)  # an element that is here twice: two places, two objects
                used.add(before)
            else:
                like = at if before is None else before
                value = lowered[at]
                now.append(old[like] if like < len(old) and same(old[like], value) else value)
                anew.append(at)
        limit = min(len(old), len(now))
        kept, steady = _identical(items, self.elements, limit), _identical(now, old, limit)
        return Scan(now, len(now), anew, [now[at] for at in anew], kept, steady, items)

    def untouched(self) -> Scan:
        """The committed list itself; elements that the step may have changed inside are to be made anew."""
        count = len(self.elements)
        anew = self.suspects()
        return Scan(self.plain, count, anew, [self.plain[at] for at in anew], count, count)

    def _lowered(self, values: list[Any]) -> list[Any]:
        depth = self.depth + 1
        return [lowered(value, depth, Walk()) for value in values]

    def settle(self, scan: Scan, fresh: list[Any], stored: list[Any]) -> None:
        """`stored` is committed now; `fresh` are the objects for `scan.anew`. `fresh` becomes the whole
        list.
        """
        before = len(self.elements)
        if scan.items is not None:
            self.elements = scan.items
        items = self.elements
        if type(scan.anew) is range:
            items += fresh
        else:
            for at, value in zip(scan.anew, fresh, strict=True):
                if at < len(items):
                    items[at] = value
                else:
                    items.append(value)
        self.plain = stored
        fresh[:] = items
        if scan.kept < before:
            first = min(scan.anew[0] if scan.anew else len(items), scan.kept)
            del self._blocks[-(-first // BLOCK) :]
            if first % BLOCK:
                self._blocks[-1].cut(first)
        else:
            if type(scan.anew) is not range:
                self._watch_again([at for at in scan.anew if at < before], before)
            first = before
        if 0 < len(scan.tail) <= RECENT and self._summed and self._sums[-1].count == before:
            for data in scan.tail:
                self._sums.append(total := self._sums[-1].copy())
                total.add(data)
                self._thin_out()
        else:
            self._forget_sums(scan.steady)
        self._watch_part(first, len(items))

    def _watch_again(self, changed: list[int], count: int) -> None:
        """Watch elements in the middle, which were made anew; `count` are watched in all."""
        for at in dict.fromkeys(at - at % BLOCK for at in changed):
            first = next(index for index in changed if index >= at)
            self._blocks[at // BLOCK].cut(first)
            self._watch_part(first, min(at + BLOCK, count))

    # -------------------------------------------------------------------------------------------- digest

    def beginning(self, live: list[Any]) -> tuple[int, list[Any]]:
        """How many elements at the beginning of a list have the content of the committed ones, and the others
        after them.
        """
        count, suspects = len(self.elements), self.suspects()
        if len(live) == count == len(self.plain) and not suspects and all(map(is_, self.elements, live)):
            return count, []
        live = list.copy(live)
        limit = min(len(live), len(self.plain))
        if len(live) >= count and all(map(is_, self.elements, live)):
            known = count
        else:
            known = _identical(live, self.elements, min(limit, count))
        for at in suspects:
            if at >= known:
                break
            if not same(self.plain[at], self._lowered([live[at]])[0]):
                return at, live[at:]
        while known < limit and same(self.plain[known], self._lowered([live[known]])[0]):
            known += 1
        return known, live[known:]

    def digest(self, count: int) -> bytes:
        """The digest of the first `count` committed elements."""
        last = self._sums[-1]
        return (last if last.count == count else self.rolling(count)).digest()

    def rolling(self, count: int) -> Rolling:
        """The same, as one that may go on."""
        self._summed = True
        sums = self._sums
        place = len(sums) - 1
        while sums[place].count > count:
            place -= 1
        total = sums[place].copy()
        while total.count < count:
            near = total.count >= count - RECENT
            stop = total.count + 1 if near else min(count - RECENT, total.count - total.count % MARK + MARK)
            total.extend(map(encode, self.plain[total.count : stop]))
            if stop > sums[-1].count:
                sums.append(total.copy())
                self._thin_out()
        return total

    def _thin_out(self) -> None:
        at = len(self._sums) - RECENT - 1
        if at > 0 and self._sums[at].count % MARK:
            del self._sums[at]

    def _forget_sums(self, steady: int) -> None:
        while self._sums[-1].count > steady:
            self._sums.pop()


def lowered(value: Any, depth: int, walk: Walk) -> Any:
    """The plain form of a value that stands `depth` containers deep. Raises NotStorable, without the path."""
    if type(value) in ATOMS:
        return value
    try:
        return lower(value, walk, depth)
    except Refused as refused:
        raise NotStorable(f"a value of the state {refused.why}", type_name=refused.type_name) from None
    except RecursionError:
        raise NotStorable("a value of the state is nested too deeply", type_name="") from None


def _identical(one: list[Any], other: list[Any], limit: int) -> int:
    """How many of the first `limit` items are the same objects."""
    at = 0
    while at < limit:
        stop = min(at + 512, limit)
        if not all(map(is_, one[at:stop], other[at:stop])):
            while one[at] is other[at]:
                at += 1
            return at
        at = stop
    return limit
