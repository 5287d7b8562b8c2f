"""Asks what is in the Parquet files of stored comparisons; a process in the sandbox decodes them, this one never does."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from webapp.comparisons.diffs.pool import pool
from webapp.comparisons.rules.states import ROW_CHANGES
from webapp.core.byte_cache import ByteCache
from webapp.core.errors import Conflict
from webapp.runtime.readers import Beyond, Damaged

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from jobs.protocol import RowExport

FIRST = "first"
"""The folder of the first rows, in that of the comparison."""
NUMBER_BYTES = 4
PART_BYTES = 256 * 1024
"""So much of an export is made before anything of it is sent, so that its errors have answers of their own."""
Line = dict[str, Any]
"""A stored line, by the names of its columns; values as JSON holds them (jobs/encoding.py)."""
KEPT_BYTES = 4 * 1024 * 1024
"""Of lines as JSON: the same page is looked at by everybody, and again with other columns. Asking takes 7 ms."""
_kept = ByteCache["tuple[Hashable, ...]", bytes](KEPT_BYTES, len)


@contextmanager
def naming_damage() -> Iterator[None]:
    """Say of files that are not as they were stored, or of answers about them, that they are damaged."""
    try:
        yield
    except Beyond as error:
        message = f"These rows cannot be shown: {error}. Ask for fewer rows."
        raise Conflict(message, code="too_large") from error
    except (Damaged, OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        message = "These stored rows are damaged. Compute them again."
        raise Conflict(message, code="damaged", reason=str(error)) from error


def describe(path: Path, values: Sequence[str] = ()) -> dict[str, str]:
    """Return the columns of a file, and SQL of values inside them, with their DuckDB types."""
    with naming_damage():
        types = _ask(path, ask="describe", values=values)["types"]
        return {str(name): str(type_) for name, type_ in types.items()}


def select(path: Path, *, columns: Sequence[str], numbers: Sequence[int]) -> list[Line]:
    """Return some columns of the lines of a row diff with these numbers, in their order."""
    if not numbers:
        return []
    with naming_damage():
        key = (*_identify(path), tuple(columns), tuple(numbers))
        if text := _kept.get(key):
            return list(json.loads(text))
        lines = _ask_lines(path, columns, numbers)
        _kept.add(key, json.dumps(lines).encode())
        return lines


def _ask_lines(path: Path, columns: Sequence[str], numbers: Sequence[int]) -> list[Line]:
    is_range = isinstance(numbers, range)
    chosen = {"first": numbers[0], "last": numbers[-1]} if is_range else {"numbers": numbers}
    lines = _ask(path, ask="lines", columns=columns, **chosen)["lines"]
    by_number = {line["n"]: line for line in map(_check_line, lines)}
    return [by_number[number] for number in numbers]


def _identify(path: Path) -> tuple[Hashable, ...]:
    """Return what tells a file from a later one at the same place."""
    state = path.stat(follow_symlinks=False)
    return str(path), state.st_ino, state.st_size, state.st_mtime_ns


def read_slice(path: Path, start: int, limit: int) -> list[Line]:
    """Return a range of lines."""
    with naming_damage():
        return [dict(line) for line in _ask(path, ask="slice", start=start, limit=limit)["lines"]]


def write_numbers(
    path: Path, *, where: str, parameters: Sequence[Any], order: str, first: int | None, most: int, target: BinaryIO
) -> int:
    """Write the numbers of the lines that a condition keeps, in an order, four bytes each: the first ones, or all.

    Return how many there were, which is `most` at most.
    """
    shown, file = _locate(path)
    question = {"ask": "numbers", "where": where, "parameters": parameters, "order": order, "first": first}
    written = 0
    with naming_damage(), closing(pool.walk(shown, is_download=False, **question, **file)) as parts:
        for part in parts:
            written += target.write(part)
            if written > most * NUMBER_BYTES:
                message = "there are more lines than were stored"
                raise Damaged(message)
    return written // NUMBER_BYTES


def read_through(path: Path) -> None:
    """Have every row of a file decoded.

    Raises:
        Conflict: the file is damaged.

    """
    shown, file = _locate(path)
    with naming_damage(), closing(pool.walk(shown, is_download=False, ask="read_through", **file)) as parts:
        for _part in parts:
            pass


def count(path: Path, *, where: str, parameters: Sequence[Any]) -> int:
    """Return how many lines a condition keeps."""
    with naming_damage():
        return int(_ask(path, ask="count", where=where, parameters=parameters)["count"])


def count_by(path: Path, *, value: str, most: int) -> list[dict[str, Any]]:
    """Return how many lines have each value, SQL over the file: the most frequent ones, in all and by kind of change."""
    with naming_damage():
        counts = _ask(path, ask="count_by", value=value, most=most)["counts"]
        return [
            {"value": line["value"], **{name: int(line[name]) for name in ("total", *ROW_CHANGES)}} for line in counts
        ]


def try_keys(path: Path, keys: Sequence[Sequence[Sequence[str]]]) -> list[dict[str, int]]:
    """Return of each key, as pairs of SQL before and after, how many removed and added rows it does not tell apart.

    And under `pairs`, how many keys both have.
    """
    with naming_damage():
        counts = _ask(path, ask="try_keys", keys=keys)["counts"]
        return [{name: int(count[name]) for name in ("removed", "added", "pairs")} for count in counts]


def export(path: Path, rows: RowExport) -> Iterator[bytes]:
    """Walk the whole diff as a file; what is wrong with it is raised now, or later ends it early."""
    shown, file = _locate(path)
    parts = pool.walk(shown, is_download=True, ask="export", **asdict(rows), **file)
    begun = bytearray()
    with naming_damage():
        for part in parts:
            begun += part
            if len(begun) >= PART_BYTES:
                break
    return _go_on(bytes(begun), parts)


def _go_on(begun: bytes, parts: Generator[bytes]) -> Iterator[bytes]:
    with closing(parts):
        yield begun
        yield from parts


def count_common(path: Path, others: Sequence[Path], *, keys: int) -> int | None:
    """Return how many lines of a file have a key that all others have, too; None where that takes too much memory."""
    with naming_damage():
        count = _ask_all(path, others, ask="count_common", keys=keys)["count"]
        return None if count is None else int(count)


def find_common(path: Path, others: Sequence[Path], *, keys: int, numbers: Sequence[int]) -> set[int]:
    """Return which of these lines of a file, by their numbers, have a key that all others have, too."""
    with naming_damage():
        return set(map(int, _ask_all(path, others, ask="find_common", keys=keys, numbers=numbers)["numbers"]))


def pair_common(path: Path, other: Path, *, keys: int, after: int, most: int) -> list[tuple[int, int]] | None:
    """Return the numbers of lines that two files have by the same key, so many of the first file behind a number.

    None where that takes too much memory.
    """
    with naming_damage():
        pairs = _ask_all(path, [other], ask="pair_common", keys=keys, after=after, most=most)["pairs"]
        return None if pairs is None else [(int(number), int(second)) for number, second in pairs]


def _ask(path: Path, **question: Any) -> dict[str, Any]:
    shown, file = _locate(path)
    return pool.ask(shown, **question, **file)


def _ask_all(path: Path, others: Sequence[Path], **question: Any) -> dict[str, Any]:
    shown, file = _locate(path)
    located = [_locate(other) for other in others]
    folders = dict.fromkeys([*shown, *(folder for folders, _ in located for folder in folders)])
    named = [[second["folder"], second["name"]] for _, second in located]
    return pool.ask(tuple(folders), others=named, **question, **file)


def _locate(path: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the folder that is shown to a reader, and where the file is in it.

    The folder of the first rows is found in that of the comparison: the job that still runs there can make it a link.
    """
    folder = path.parent.parent if path.parent.name == FIRST else path.parent
    return (str(folder),), {"folder": str(folder), "name": str(path.relative_to(folder))}


def _check_line(line: Any) -> Line:
    counts = [line["n"], line["copies"], *(line["changed"] or ())]
    if line["change"] not in ROW_CHANGES or not all(isinstance(count, int) for count in counts):
        message = "a line is none of a row diff"
        raise Damaged(message)
    return dict(line)
