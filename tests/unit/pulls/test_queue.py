"""What a test of the merge queue builds, and what the check of the merge result says."""

from __future__ import annotations

import pytest

from webapp.pulls.rules.checks import ResultOfQueue, judge_merge_result
from webapp.pulls.rules.queue import list_tested
from webapp.pulls.rules.states import QueueState

INPUTS = {"/x/b": ["/x/a"], "/x/c": ["/x/b"], "/x/other": ["/x/raw"]}
BEGIN = {"/x/a": "1", "/x/b": "1", "/x/c": "1", "/x/other": "1"}


@pytest.mark.parametrize(
    ("base", "merged", "tested"),
    [
        (BEGIN, {**BEGIN, "/x/b": "2"}, ["/x/b"]),
        ({**BEGIN, "/x/c": "3"}, {**BEGIN, "/x/b": "2", "/x/c": "3"}, ["/x/b", "/x/c"]),
        ({**BEGIN, "/x/a": "3"}, {**BEGIN, "/x/a": "3", "/x/b": "2"}, ["/x/a", "/x/b"]),
        ({**BEGIN, "/x/other": "3"}, {**BEGIN, "/x/b": "2", "/x/other": "3"}, ["/x/b"]),
        ({**BEGIN, "/x/new": "1"}, {**BEGIN, "/x/b": "2", "/x/new": "2"}, ["/x/b", "/x/new"]),
    ],
    ids=["alone", "what reads it", "what it reads", "what is apart", "what both make"],
)
def test_what_is_built_is_what_the_merge_changes_and_what_others_changed_around_it(
    base: dict[str, str], merged: dict[str, str], tested: list[str]
) -> None:
    assert list_tested(rebuilt=["/x/b", "/x/gone"], merged=merged, base=base, begin=BEGIN, inputs=INPUTS) == tested


MOVED = "master has 2 commits that the branch was not built with"


@pytest.mark.parametrize(
    ("behind", "tested", "judged"),
    [
        (0, None, ("green", "master has nothing that the branch was not built with")),
        (2, None, ("pending", MOVED)),
        (2, ResultOfQueue(QueueState.TESTING, "h", "", 7), ("pending", "what would land is being tested")),
        (2, ResultOfQueue(QueueState.WAITING, "", "", None), ("pending", MOVED)),
        (2, ResultOfQueue(QueueState.GREEN, "h", "", 7), ("green", "what would land is built")),
        (2, ResultOfQueue(QueueState.GREEN, "before", "", 7), ("pending", "what would land is being tested")),
        (2, ResultOfQueue(QueueState.RED, "h", "Build 7 failed.", 7), ("red", "Build 7 failed.")),
        (
            2,
            ResultOfQueue(QueueState.RED, "before", "Build 7 failed.", 7),
            ("pending", "what would land is being tested"),
        ),
        (2, ResultOfQueue(QueueState.EJECTED, "h", "Build 7 failed.", 7), ("pending", MOVED)),
    ],
)
def test_the_merge_result_is_green_for_exactly_what_was_tested(
    behind: int, tested: ResultOfQueue | None, judged: tuple[str, str]
) -> None:
    check = judge_merge_result(behind, "master", head="h", tested=tested)
    assert (check.state, check.detail) == judged
