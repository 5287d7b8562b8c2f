"""What a linter says of code that is not committed yet."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.core.errors import InvalidInput
from webapp.runtime.readers import ReadFailed, ask_reader

SUFFIX = ".py"
MAX_TEXT = 1_000_000
"""Characters, as many as the editor opens."""
SECONDS = 10.0
LIMITS = {"memory_bytes": 4 * 1024**3, "total_memory_bytes": 1024**3, "fsize": 0, "cpu_s": 10, "nproc": 64}
ANSWER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LintProblem:
    """Something that is wrong with a text, from one place to another; lines and columns count from 1."""

    code: str
    message: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class LintReport:
    """What is wrong with a text."""

    problems: tuple[LintProblem, ...] = ()


def lint(*, path: str, text: str) -> LintReport:
    """Return what ruff says of a file of Python, and nothing of other files; a process in the sandbox runs it.

    Raises:
        InvalidInput: the text is too long, or makes ruff fail.
        Unavailable: no process can be started.

    """
    if not path.endswith(SUFFIX):
        return LintReport()
    if len(text) > MAX_TEXT:
        message = f"A text of at most {MAX_TEXT:,} characters is checked; this one has {len(text):,}."
        raise InvalidInput(message, code="text_too_long", errors={"text": [message]})
    try:
        question = {"ask": "lint", "path": path.rpartition("/")[2], "text": text}
        answer = ask_reader(question, limits=LIMITS, seconds=SECONDS, most_answer_bytes=ANSWER_BYTES)
    except ReadFailed as error:
        message = f"The text could not be checked: {error}."
        raise InvalidInput(message, code="not_checked", errors={"text": [message]}) from error
    return LintReport(tuple(LintProblem(**problem) for problem in answer["problems"]))
