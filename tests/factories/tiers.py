"""Which tests and cases every run goes through, and which are for `make soak`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def further(quick: str) -> pytest.MarkDecorator:
    """Mark a further witness, which is for soak: every run asks the same by a test that costs less.

    `quick` names that one, from below `tests/`, as `file.py::test`; `tests/architecture/test_tiers.py` sees that every
    run has it.
    """
    return pytest.mark.soak(quick)


def thin(cases: Iterable[Any], *, every_run: Container[Any]) -> list[Any]:
    """Return the cases of a matrix: those named go through every run, the others are marked for soak."""
    return [case if case in every_run else _for_soak(case) for case in cases]


def _for_soak(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak)
