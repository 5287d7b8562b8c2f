"""The checks that a protection may require: ours, queries of the repository, and what programs of others report."""

from __future__ import annotations

JOBSPECS, BUILD, DATA_CURRENT = "JobSpecs", "Build", "Data current"
MERGE_RESULT = "Merge result"
"""Of what would be on the target after the merge, where the target has moved; the merge queue gives it."""
CHECKS = (JOBSPECS, BUILD, DATA_CURRENT, MERGE_RESULT)

PENDING, SUCCESS, FAILURE, ERROR = "pending", "success", "failure", "error"
RESULT_CHOICES = [
    (PENDING, "It has not come to an end yet"),
    (SUCCESS, "What it looks for is as it should be"),
    (FAILURE, "It found something wrong"),
    (ERROR, "It could not look"),
]
GREEN, RED, WAITING = "green", "red", "pending"
COLOURS = {PENDING: WAITING, SUCCESS: GREEN, FAILURE: RED, ERROR: RED}
"""What a reported result is among the checks of a pull request."""
TONES = {GREEN: "ok", RED: "bad", WAITING: "wait"}
"""The sign and colour that show it."""


QUERIES = "checks/"
"""With this the names of those checks begin that are queries of the repository: files, without their ending."""


def is_query(name: str) -> bool:
    """Return whether a check of this name is a query of the repository."""
    return name.startswith(QUERIES)


def find_check(name: str) -> str | None:
    """Return the check of ours of this name, however its letters are written; None where there is none."""
    return next((check for check in CHECKS if check.casefold() == name.strip().casefold()), None)
