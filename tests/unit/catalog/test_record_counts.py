"""A summary is believed where the manifests say the same; a mistake of the snapshot before it is nobody else's."""

from __future__ import annotations

import pytest

from webapp.catalog.rules.record_counts import RecordCounts, explain_summary

FIRST = {"added-records": "5", "total-records": "5", "total-position-deletes": "0"}


def explain(
    summary: dict[str, str], since: dict[str, str], *, before: int = 0, after: int, added: int, deletes: int = 0
) -> str:
    return explain_summary(
        summary, since=since, before=RecordCounts(before), after=RecordCounts(after, deletes), added=added
    )


@pytest.mark.parametrize(
    ("summary", "since", "before", "after", "added", "deletes"),
    [
        (FIRST, {}, 0, 5, 5, 0),
        ({"added-records": "2", "total-records": "7"}, FIRST, 5, 7, 2, 0),
        ({"deleted-records": "5", "added-records": "3", "total-records": "3"}, FIRST, 5, 3, 3, 0),
        ({"total-records": "5", "total-position-deletes": "1"}, FIRST, 5, 5, 0, 1),
        ({"total-records": "5", "total-equality-deletes": "1"}, FIRST, 5, 5, 0, 1),
        # the one before counts nothing, and so neither does this one
        ({"added-records": "2"}, {"operation": "append"}, 5, 7, 2, 0),
        # the one before is wrong: what goes on from it is as wrong, what is made anew is right
        ({"added-records": "2", "total-records": "1001"}, {"total-records": "999"}, 5, 7, 2, 0),
        ({"added-records": "2", "deleted-records": "999", "total-records": "2"}, {"total-records": "999"}, 5, 2, 2, 0),
    ],
)
def test_what_is_so_is_taken(
    summary: dict[str, str], since: dict[str, str], before: int, after: int, added: int, deletes: int
) -> None:
    assert explain(summary, since, before=before, after=after, added=added, deletes=deletes) == ""


@pytest.mark.parametrize(
    ("summary", "since", "before", "after", "added", "why"),
    [
        (
            {**FIRST, "total-records": "999999"},
            {},
            0,
            5,
            5,
            "999999 rows and 0 deletes where its manifests list 5 rows",
        ),
        ({**FIRST, "added-records": "6"}, {}, 0, 5, 5, "6 added rows where its manifests list 5"),
        ({**FIRST, "total-position-deletes": "4"}, {}, 0, 5, 5, "5 rows and 4 deletes where"),
        ({"added-records": "5"}, {}, 0, 5, 5, "no total-records"),
        ({"added-records": "2", "deleted-records": "1", "total-records": "7"}, FIRST, 5, 7, 2, "1 removed rows where"),
        ({"added-records": "2", "total-records": "3"}, {"total-records": "999"}, 5, 7, 2, "3 rows and 0 deletes where"),
    ],
)
def test_what_is_not_so_is_named(
    summary: dict[str, str], since: dict[str, str], before: int, after: int, added: int, why: str
) -> None:
    assert explain(summary, since, before=before, after=after, added=added).startswith(why)
