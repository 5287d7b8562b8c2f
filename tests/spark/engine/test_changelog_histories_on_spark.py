"""The histories of keys again, with Spark computing their changelogs: some twenty of them, each in three ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.jobs import test_changelog as cases
from tests.unit.jobs.test_changelog import (  # noqa: F401 - collected here again
    test_applying_follows_the_source,
    test_histories_of_a_key,
)

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def _by_spark(monkeypatch: pytest.MonkeyPatch, read_by_spark: Callable[..., Any]) -> None:
    monkeypatch.setattr(cases, "read_changelog", read_by_spark)
    monkeypatch.setattr(cases, "in_child", lambda function: function())
