"""Reads the stored files of one comparison for the web, which itself decodes none: what wrote them had read strangers' files.

It sees the folder of that comparison alone and can change nothing there, and it reaches no network. It is asked over a
channel (jobs/channel.py) and stays for further questions about the same comparison.

Questions name a file by ``folder``, which it is shown, and ``name`` below that: ``{"ask": "describe", "values"}`` →
``{"types"}``; ``{"ask": "lines", "columns", "first", "last"}`` or ``"numbers"`` in the place of the last two, and ``{"ask":
"slice", "start", "limit"}`` → ``{"lines"}``; ``{"ask": "numbers", "where", "parameters", "order", "first"}`` and
``{"ask": "export", ...}`` with the fields of RowExport, and ``{"ask": "read_through"}``, which decodes every row → ``{"is_last"}`` and bytes, the next of which ``{"ask": "more"}``
brings; ``{"ask": "count_by", "value", "most"}`` and ``{"ask": "try_keys", "keys"}`` → ``{"counts"}``; ``{"ask": "count", "where", "parameters"}`` and ``{"ask": "count_common", "others", "keys"}`` → ``{"count"}``;
``{"ask": "find_common", "others", "keys", "numbers"}`` → ``{"numbers"}`` and ``{"ask": "pair_common", "others", "keys",
"after", "most"}`` → ``{"pairs"}`` of numbers, where each of ``others`` is a folder and a name, for pairs only one. Or ``{"failure", "message"}`` with a ReadFailure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from jobs.engine.channel_io import ChannelFileIO
from jobs.engine.read.manifest_files import DamagedManifest
from jobs.engine.read.row_exports import export_rows
from jobs.engine.read.stored_rows import StoredRows, read_slice, read_through
from jobs.entrypoints.answering import Answer, Answering, answer_all
from jobs.protocol import ExportedValue, RowExport
from jobs.regular_files import open_beneath

MOST_QUESTION_BYTES = 16 * 1024 * 1024
PART_BYTES = 1024 * 1024
PATIENCE_S = 90.0
"""Longer than the web keeps a reader whom it asks nothing."""


def main(_path: str) -> int:
    """Answer until nobody asks any more."""
    pa.set_memory_pool(pa.system_memory_pool())  # others reserve at once what is to be left for rows
    return answer_all(ArtifactReader, most_question_bytes=MOST_QUESTION_BYTES, patience_s=PATIENCE_S)


class ArtifactReader(Answering):
    """The answers about one comparison."""

    out_of_memory = (MemoryError, duckdb.OutOfMemoryException)

    def __init__(self, files: ChannelFileIO) -> None:
        super().__init__(files)
        self._rows = StoredRows()
        self._parts: Iterator[bytes] = iter(())

    def work_out(self, ask: str, details: dict[str, Any]) -> Answer:
        """Look into the files."""
        if ask == "more":
            return self._next_part()
        path = _find(details.pop("folder"), details.pop("name"))
        if ask == "numbers":
            self._parts = _split(self._rows.list_numbers(path, **details))
            return self._next_part()
        if ask == "read_through":
            self._parts = read_through(path)
            return self._next_part()
        if ask == "export":
            values = tuple(ExportedValue(**value) for value in details["values"])
            self._parts = _split(export_rows(path, RowExport(details["format"], values, details["columns"])))
            return self._next_part()
        return Answer(self._look(ask, path, details))

    def _next_part(self) -> Answer:
        part = next(self._parts, None)
        return Answer({"is_last": part is None}, part or b"")

    def _look(self, ask: str, path: Path, details: dict[str, Any]) -> dict[str, Any]:
        if ask == "describe":
            return {"types": self._rows.describe(path, details["values"])}
        if ask == "lines":
            return {"lines": self._rows.select(path, columns=details["columns"], where=_one_of(details))}
        if ask == "slice":
            return {"lines": read_slice(path, details["start"], details["limit"])}
        if ask == "count_by":
            return {"counts": self._rows.count_by(path, value=details["value"], most=details["most"])}
        if ask == "try_keys":
            return {"counts": self._rows.try_keys(path, details["keys"])}
        if ask == "count":
            return {"count": self._rows.count(path, where=details["where"], parameters=details["parameters"])}
        others = [_find(*place) for place in details["others"]]
        if ask == "count_common":
            return {"count": self._rows.count_common(path, others, keys=details["keys"])}
        if ask == "pair_common":
            (other,) = others
            bounds = {"after": details["after"], "most": details["most"]}
            return {"pairs": self._rows.pair_common(path, other, keys=details["keys"], **bounds)}
        return {"numbers": self._rows.find_common(path, others, keys=details["keys"], numbers=details["numbers"])}


def _split(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield parts of a size that the other side takes, however long the rows are."""
    for part in parts:
        yield from (part[start : start + PART_BYTES] for start in range(0, len(part), PART_BYTES))


def _find(folder: str, name: str) -> Path:
    """Find a file of the comparison; a link could lead nowhere here, a FIFO would keep its reader waiting."""
    try:
        os.close(open_beneath(folder, name))
    except OSError as error:
        message = f"{name}: {error.strerror}"
        raise DamagedManifest(message) from error
    return Path(folder, name)


def _one_of(details: dict[str, Any]) -> str:
    """Return the condition on the numbers of lines."""
    if "numbers" in details:
        return f"n IN ({', '.join(map(str, details['numbers']))})"
    return f"n BETWEEN {details['first']} AND {details['last']}"
