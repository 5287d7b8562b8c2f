"""How much the files of a diff take once they are decoded, before anything is decoded for good: bombs are small on disk.

A footer says how many values there are, and nothing of how long those are that stand in a dictionary. Their lengths are
added up without copying one: that costs as much as reading the references to them. Footers that lie meet the limits of the
process: its memory, its disk and its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.engine.errors import MemoryLimitError
from jobs.engine.read.scan import Weight

if TYPE_CHECKING:
    from jobs.engine.compare.file_rows import FileRows
    from jobs.engine.read.metadata import LiveEntry
    from jobs.engine.read.scan import Scanner

LEAST_BYTES = 4 * 2**30
MOST_TIMES = 1000
"""What is compared may decode to so many times its size, and to `LEAST_BYTES` whatever its size."""
_GIB = 2**30


def check_decoded(rows: FileRows, *, with_rows: bool) -> None:
    """Refuse to compare files whose content takes far more than their size.

    Args:
        rows: what is compared.
        with_rows: whether this process reads the rows; files that say which rows are deleted it reads always.

    Raises:
        MemoryLimitError: says how much.

    """
    ends = _list_files(rows, with_rows=with_rows)
    weight = sum((scanner.weigh(files) for scanner, files in ends), Weight(0, 0, 0))
    most, decoded = max(LEAST_BYTES, weight.stored * MOST_TIMES), weight.decoded
    if decoded + weight.most_lengths <= most:
        return
    for scanner, files in ends:
        if decoded <= most:  # else it is too much already, and adding up more would take its time
            decoded += scanner.add_lengths(files, enough=most - decoded)
    if decoded > most:
        raise MemoryLimitError(
            f"The files to compare hold {weight.stored:,} bytes and decode to at least {decoded / _GIB:,.1f} GiB, more than "
            f"{MOST_TIMES:,} times as much: keep values that repeat so often in a table of their own."
        )


def _list_files(rows: FileRows, *, with_rows: bool) -> list[tuple[Scanner, list[LiveEntry]]]:
    """List the files that are read, each once, with who reads them."""
    seen: set[LiveEntry] = set()
    ends = []
    for side in "ba":
        live = rows.plan.files_to_compare(side)
        named = {entry for file in live for entry in (*([file.data] if with_rows else []), *file.deletes)} - seen
        if named and (scanner := rows.scanner(side)) is not None:
            ends.append((scanner, sorted(named, key=lambda entry: entry.path)))
        seen |= named
    return ends
