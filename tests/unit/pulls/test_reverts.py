"""How a pull request that reverts another one is called."""

from __future__ import annotations

import pytest

from webapp.core.names import find_branch_problem
from webapp.pulls.rules.reverts import name_branch, write_title


@pytest.mark.parametrize(
    ("source", "earlier", "name"),
    [
        ("fix", 0, "revert-7-fix"),
        ("fix", 2, "revert-7-fix-3"),
        ("feature/a/b", 0, "revert-7-feature-a-b"),
        ("x" * 200, 10, f"revert-7-{'x' * 170}-11"),
        (f"{'x' * 165}.lock.more", 0, f"revert-7-{'x' * 165}.lock"[:-5]),
    ],
)
def test_name_is_legal_and_follows_from_what_was_before(source: str, earlier: int, name: str) -> None:
    assert name_branch(number=7, source=source, earlier=earlier) == name
    assert find_branch_problem(name) is None


def test_title_fits_and_quotes_the_other_one() -> None:
    assert write_title("Fix rates") == 'Revert "Fix rates"'
    assert write_title("t" * 240) == f'Revert "{"t" * 240}"'
    assert write_title("t" * 241) == f'Revert "{"t" * 239}…"'
