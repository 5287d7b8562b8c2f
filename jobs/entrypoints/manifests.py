"""Reads manifest lists and manifests for the web, which itself decodes nothing that others have written.

It sees no file and reaches no network, as `read`, and is answered in the same way (see read.py). It imports few libraries,
since each job that ends is checked by one such process. One process reads one table for one request.

Questions: ``{"ask": "list", "location"}`` for the records of a manifest list; ``{"ask": "entries", "location"}`` for the
first live entries of a manifest, and ``{"ask": "more"}`` for the next. Answers: ``{"records", "is_last"}``, packed
(jobs/engine/read/packed.py); or ``{"failure", "message"}`` with a ReadFailure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from jobs.engine.channel_io import ChannelFileIO
from jobs.engine.read.manifest_files import read_live_entries, read_manifest_list
from jobs.engine.read.packed import pack
from jobs.entrypoints.answering import Answer, Answering, answer_all

MOST_QUESTION_BYTES = 256 * 1024 * 1024
"""Bytes of an object that is read come in one message, too."""
MOST_ENTRIES = 1_000
"""Entries in one answer."""


def main(_path: str) -> int:
    """Answer until nobody asks any more."""
    return answer_all(ManifestReader, most_question_bytes=MOST_QUESTION_BYTES)


class ManifestReader(Answering):
    """The answers to one caller."""

    def __init__(self, files: ChannelFileIO) -> None:
        super().__init__(files)
        self._entries: Iterator[Any] = iter(())

    def work_out(self, ask: str, details: dict[str, Any]) -> Answer:
        """Read what is asked for."""
        if ask == "list":
            records = read_manifest_list(details["location"], self.files)
            return Answer({"records": [pack(record) for record in records], "is_last": True})
        if ask == "entries":
            self._entries = read_live_entries(details["location"], self.files)
        records = list(islice(self._entries, MOST_ENTRIES))
        return Answer({"records": [pack(record) for record in records], "is_last": len(records) < MOST_ENTRIES})
