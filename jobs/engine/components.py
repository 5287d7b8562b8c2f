"""Files whose keys cannot meet, so that they are compared one group after the other in memory that the largest needs.

Tables that were written in the order of their key, or partitioned by a part of it, fall into many groups; files that each
span all keys are one. Only bounds in manifests are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jobs.engine.bounds import is_less, range_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jobs.engine.bounds import Bound
    from jobs.engine.columns import Pair
    from jobs.engine.planner import LiveFile


@dataclass(frozen=True)
class Part:
    """Files of both ends that are compared with each other, and with no other."""

    left: tuple[LiveFile, ...] = ()
    came: tuple[LiveFile, ...] = ()

    def __add__(self, other: Part) -> Part:
        return Part(self.left + other.left, self.came + other.came)


@dataclass(frozen=True)
class _Spanned:
    """One file, and the values of a key column that it may have."""

    part: Part
    low: Bound
    high: Bound


def split_by_key(whole: Part, keys: Iterable[Pair], *, size: Callable[[Part], int], limit: int) -> list[Part]:
    """Parts that no key connects, by the key column that makes the smallest ones; small ones together up to `limit`."""
    found = [list(_components(whole, pair)) for pair in keys]
    return min((_pack(parts, size, limit) for parts in [[whole], *found]), key=lambda parts: max(map(size, parts)))


def _low(file: _Spanned) -> Any:
    return file.low  # the bounds of one column are of one kind, which can be sorted


def _components(whole: Part, pair: Pair) -> Iterator[Part]:
    files = _spanned(whole, pair)
    if not files:
        yield whole
        return
    files.sort(key=_low)
    current = files[0]
    for file in files[1:]:
        if is_less(current.high, file.low):
            yield current.part
            current = file
        else:
            high = file.high if is_less(current.high, file.high) else current.high
            current = replace(current, part=current.part + file.part, high=high)
    yield current.part


def _spanned(whole: Part, pair: Pair) -> list[_Spanned]:
    """All files with their values of a column; none where they are not known of one."""
    if pair.outer is not None or pair.before is None or pair.after is None or pair.before.type != pair.after.type:
        return []
    found = []
    for field, parts in (
        (pair.before, [Part(left=(file,)) for file in whole.left]),
        (pair.after, [Part(came=(file,)) for file in whole.came]),
    ):
        for part in parts:
            span = range_of((*part.left, *part.came)[0].data, field)
            if span is None:
                return []
            found.append(_Spanned(part, *span))
    return found


def _pack(parts: Sequence[Part], size: Callable[[Part], int], limit: int) -> list[Part]:
    packed = [parts[0]]
    taken = size(parts[0])
    for part in parts[1:]:
        more = size(part)
        if taken + more <= limit:
            packed[-1] += part
            taken += more
        else:
            packed.append(part)
            taken = more
    return packed
