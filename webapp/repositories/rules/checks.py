"""The checks of a pull request that a protection may require: the names that pages and REST show them under."""

from __future__ import annotations

JOBSPECS, BUILD, DATA_CURRENT = "JobSpecs", "Build", "Data current"
CHECKS = (JOBSPECS, BUILD, DATA_CURRENT)


def find_check(name: str) -> str | None:
    """Return the check of this name, however its letters are written; None where nothing gives one."""
    return next((check for check in CHECKS if check.casefold() == name.strip().casefold()), None)
