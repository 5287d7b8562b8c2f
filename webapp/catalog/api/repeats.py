"""Answers that are given again, by the event loop alone: to the same request, while the database is the same.

What the catalog says of tables and namespaces follows from the request, the database, and metadata files that never change.
So while nobody has committed anything, who asks again byte for byte gets the same bytes. Tokens, rights, branches and tables
are all in the database: a change of any of them, by any process, is another version of it, and nothing of the one before is
used any more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from webapp.catalog.api.http import CatalogResponse
from webapp.core import clock
from webapp.core.byte_cache import ByteCache
from webapp.core.change_counter import ChangeCounter, Version

KEPT_BYTES = 16 * 1024 * 1024
LARGEST_BYTES = 1024 * 1024
"""What is longer takes its time in being sent, not in being made."""
OVERHEAD_BYTES = 2048
"""About what an answer takes beside its body."""


class Question(NamedTuple):
    """A request, and the version of the database that was there when it came."""

    key: bytes
    version: Version


class Repeats:
    """The answers of one process; for its event loop alone."""

    def __init__(self, counter: ChangeCounter, *, limit: int) -> None:
        """Keep at most so many bytes."""
        self._counter = counter
        self._version: Version | None = None
        self._answers = ByteCache[bytes, CatalogResponse](limit, lambda answer: len(answer.body) + OVERHEAD_BYTES)

    def ask(self, scope: Mapping[str, Any]) -> Question | None:
        """Read what a request asks, and of which version; None where its answer is not given again."""
        version = self._counter.read() if scope["method"] == "GET" else None
        if version is None:
            return None
        if version != self._version:
            self._answers.clear()
            self._version = version
        return Question(_digest(scope), version)

    def find(self, question: Question) -> CatalogResponse | None:
        """Return the answer that the same request had, which counts as given once more."""
        answer = self._answers.get(question.key)
        if answer is None or answer.repeat is None or clock.now() >= answer.repeat.until:
            return None
        if answer.repeat.note is not None:
            answer.repeat.note()
        return answer

    def keep(self, question: Question, answer: CatalogResponse) -> None:
        """Keep an answer that was made after its question was asked.

        If it was made of a later version than the question's, the next question is of that version, and finds nothing.
        """
        if answer.repeat is not None and question.version == self._version and len(answer.body) <= LARGEST_BYTES:
            self._answers.add(question.key, answer)


def _digest(scope: Mapping[str, Any]) -> bytes:
    """Return a digest of all that an answer may depend on of a request without a body; no token is kept in memory."""
    parts = [scope.get("raw_path") or scope["path"].encode(), scope["query_string"]]
    for header in scope["headers"]:
        parts += header
    # No part can hold a line break: HTTP's own parts end with one.
    return hashlib.sha256(b"\n".join(parts)).digest()
