"""Parquet files as people edit them: JSON lines. A process in the sandbox reads and writes them; here they stay bytes."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from webapp.core.errors import InvalidInput
from webapp.runtime.readers import ReadFailed, ask_reader

SUFFIX = ".parquet"
LINES_SUFFIX = ".jsonl"
MOST_BYTES = 1_000_000
"""Of a file, as many as the editor opens."""
SECONDS = 10.0
LIMITS = {"memory_bytes": 4 * 1024**3, "total_memory_bytes": 1024**3, "fsize": 0, "cpu_s": 10}
ANSWER_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileLines:
    """The rows of a Parquet file."""

    text: str
    """JSON lines."""
    columns: tuple[tuple[str, bool], ...]
    """Names, each with whether its values are texts."""


def is_parquet(path: str) -> bool:
    """Return whether a file is edited as the rows that it holds."""
    return path.endswith(SUFFIX)


def make_lines(path: str, content: bytes) -> FileLines:
    """Return the rows of a Parquet file as JSON lines.

    Raises:
        InvalidInput: it is none, or its rows cannot be edited as text; the message says why.
        Unavailable: no process can be started.

    """
    if len(content) > MOST_BYTES:
        message = f"{path} is larger than {MOST_BYTES:,} bytes."
        raise InvalidInput(message, code="bad_rows")
    answer = _ask(path, ask="lines", content=b64encode(content).decode())
    return FileLines(answer["lines"], tuple((name, is_text) for name, is_text in answer["columns"]))


def make_parquet(path: str, lines: str, *, old: bytes) -> bytes:
    """Return a Parquet file of rows, with the columns and types of another one; that itself, where it has these rows.

    Raises:
        InvalidInput: a line is no such row; the message says which and why.
        Unavailable: no process can be started.

    """
    return b64decode(_ask(path, ask="parquet", lines=lines, old=b64encode(old).decode())["content"])


def _ask(path: str, **question: Any) -> dict[str, Any]:
    try:
        answer = ask_reader(question, limits=LIMITS, seconds=SECONDS, most_answer_bytes=ANSWER_BYTES)
    except ReadFailed as error:
        message = f"{path}: the rows could not be read: {error}."
        raise InvalidInput(message, code="not_read") from error
    if "problem" in answer:
        message = f"{path}: {answer['problem']}."
        raise InvalidInput(message, code="bad_rows")
    return answer
