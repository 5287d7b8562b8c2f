"""What sweeps do with rows of which one is damaged."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from webapp.dispatch.sweeps import take_each


def test_one_that_fails_holds_up_none_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def act(row: str) -> bool:
        if row == "damaged":
            raise KeyError("snapshot-id")
        return row != "idle"

    assert take_each(["a", "damaged", "idle", "b"], act, what="Nobody can end") == 2
    assert [record.getMessage() for record in caplog.records] == ["Nobody can end damaged"]


def test_a_busy_database_ends_the_turn() -> None:
    def act(row: str) -> bool:
        raise OperationalError(f"database is locked at {row}")

    with pytest.raises(OperationalError, match="at a"):
        take_each(["a", "b"], act, what="Nobody can end")
