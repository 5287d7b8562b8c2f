"""Reads a table's files for the web, which itself decodes nothing that others have written: manifests and pages of rows.

It sees no file and reaches no network. The web asks over a channel (jobs/channel.py), opens each file that is asked for
in return, and ends this process when it has what it wanted. One process reads one table for one request.

Questions: ``{"ask": "rows", ...}`` with the fields of RowsRequest; ``{"ask": "list", "location"}`` for the records of a
manifest list; ``{"ask": "entries", "location"}`` for the first live entries of a manifest, and ``{"ask": "more"}`` for the
next. Answers: ``{"rows", "total", "scanned"}``; ``{"records", "is_last"}``, packed (jobs/engine/packed.py); or ``{"failure",
"message"}`` with a ReadFailure. In between: ``{"open": location}``, answered by ``{"size"}`` and an open file where there
is one, and ``{"read": location, "start", "size"}``, answered by the bytes.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import islice
from typing import Any

import duckdb
import pyarrow as pa

from jobs.channel import NUMBER, Channel, Closed
from jobs.engine.channel_io import ChannelFileIO
from jobs.engine.first_rows import read_rows
from jobs.engine.manifest_files import Beyond, Damaged, read_live_entries, read_manifest_list
from jobs.engine.packed import pack
from jobs.entrypoints.address_space import leave_room
from jobs.protocol import ReadFailure, RowsRequest

ROOM_BYTES = 1024**3
"""For what is decoded."""
MOST_QUESTION_BYTES = 256 * 1024 * 1024
MOST_ENTRIES = 1_000
"""Entries in one answer."""


def main(_path: str) -> int:
    """Answer until nobody asks any more."""
    pa.set_memory_pool(pa.system_memory_pool())  # others reserve at once what is to be left for rows
    leave_room(ROOM_BYTES)
    reader = Reader(Channel(socket.socket(fileno=NUMBER), at_most=MOST_QUESTION_BYTES))
    try:
        while True:
            reader.answer()
    except Closed:
        return 0


class Reader:
    """The answers to one caller."""

    def __init__(self, channel: Channel) -> None:
        self._files = ChannelFileIO(channel)
        self._entries: Iterator[Any] = iter(())

    def answer(self) -> None:
        """Hear one question and answer it."""
        question = self._files.hear_question()
        try:
            answer = self._work_out(**question)
        except Damaged as error:
            answer = _failure("damaged", error)
        except Beyond as error:
            answer = _failure("beyond", error)
        except (MemoryError, duckdb.OutOfMemoryException) as error:
            answer = _failure("memory", error)
        except Closed:
            raise
        except Exception as error:  # what libraries raise over such files is not written anywhere
            answer = _failure("damaged", error)
        self._files.answer(answer)

    def _work_out(self, *, ask: str, **wanted: Any) -> dict[str, Any]:
        if ask == "rows":
            rows, total, scanned = read_rows(RowsRequest(**wanted), self._files)
            return {"rows": rows, "total": total, "scanned": scanned}
        if ask == "list":
            records = read_manifest_list(wanted["location"], self._files)
            return {"records": [pack(record) for record in records], "is_last": True}
        if ask == "entries":
            self._entries = read_live_entries(wanted["location"], self._files)
        records = list(islice(self._entries, MOST_ENTRIES))
        return {"records": [pack(record) for record in records], "is_last": len(records) < MOST_ENTRIES}


def _failure(kind: ReadFailure, error: Exception) -> dict[str, Any]:
    return {"failure": kind, "message": str(error) if isinstance(error, Damaged | Beyond) else type(error).__name__}
