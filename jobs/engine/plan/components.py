"""Files whose keys cannot meet, so that they are compared one group after the other in memory that the largest needs.

Tables that were written in the order of their key, or partitioned by a part of it, fall into many groups; files that each
span all keys are one. Only bounds in manifests are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.engine.read.bounds import is_less, range_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jobs.engine.plan.columns import Pair
    from jobs.engine.read.bounds import Bound
    from jobs.engine.read.live_files import LiveFile


@dataclass(frozen=True)
class FileGroup:
    """Files of both ends that are compared with each other, and with no other."""

    left: tuple[LiveFile, ...] = ()
    came: tuple[LiveFile, ...] = ()


@dataclass(frozen=True)
class Room:
    """How large parts may become where small ones are put together."""

    usual: int
    """Bytes, decoded. Small hash tables are fast ones."""
    most: int
    """Bytes, for as long as fewer files are read at each end than there are threads, which would have nothing to do."""
    threads: int


@dataclass(frozen=True)
class _Spanned:
    """One file of an end, and the values of a key column that it may have."""

    end: str
    file: LiveFile
    low: Bound
    high: Bound


def split_by_key(
    whole: FileGroup, keys: Iterable[Pair], *, size: Callable[[FileGroup], int], room: Room
) -> list[FileGroup]:
    """Split files into parts that no key connects, by the key column that makes most; `size` is in decoded bytes."""
    splits = [list(_pack(_components(whole, pair), size, room)) for pair in keys]
    return max([[whole], *splits], key=len)


def _components(whole: FileGroup, pair: Pair) -> Iterator[FileGroup]:
    files = _spanned(whole, pair)
    if not files:
        yield whole
        return
    files.sort(key=_low)
    group, high = files[:1], files[0].high
    for file in files[1:]:
        if is_less(high, file.low):
            yield _part(group)
            group, high = [file], file.high
        else:
            group.append(file)
            high = file.high if is_less(high, file.high) else high
    yield _part(group)


def _spanned(whole: FileGroup, pair: Pair) -> list[_Spanned]:
    """Return all files with their values of a column; none where they are not known of one."""
    if pair.outer is not None or pair.before is None or pair.after is None or pair.before.type != pair.after.type:
        return []
    spanned = []
    for end, field, files in (("left", pair.before, whole.left), ("came", pair.after, whole.came)):
        for file in files:
            span = range_of(file.data, field)
            if span is None:
                return []
            spanned.append(_Spanned(end, file, *span))
    return spanned


def _low(file: _Spanned) -> Any:
    return file.low  # the bounds of one column are of one kind, which can be sorted


def _part(group: Iterable[_Spanned]) -> FileGroup:
    ends: dict[str, list[LiveFile]] = {"left": [], "came": []}
    for spanned in group:
        ends[spanned.end].append(spanned.file)
    return FileGroup(tuple(ends["left"]), tuple(ends["came"]))


def _pack(parts: Iterable[FileGroup], size: Callable[[FileGroup], int], room: Room) -> Iterator[FileGroup]:
    """Put neighbours together while there is room."""
    left: list[LiveFile] = []
    came: list[LiveFile] = []
    taken = 0
    for part in parts:
        more = size(part)
        is_narrow = min(len(left) + len(part.left), len(came) + len(part.came)) <= room.threads
        if taken and taken + more > (room.most if is_narrow else room.usual):
            yield FileGroup(tuple(left), tuple(came))
            left, came, taken = [], [], 0
        left += part.left
        came += part.came
        taken += more
    yield FileGroup(tuple(left), tuple(came))
