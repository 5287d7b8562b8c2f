"""The edge values again, asked of both executors, who tell the same; and Spark's MERGE by such keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import MapType

from tests.factories.edges import EDGES
from tests.property import changelog_laws as laws
from tests.property import test_changelog_schemas as histories
from tests.property import test_edge_values as cases
from tests.property.test_edge_values import (  # noqa: F401 - collected here again
    test_dropped_and_added_as_another_type,
    test_no_rows,
)
from tests.spark.engine.agreement import agree, check_merged
from tests.spark.engine.conftest import BothExecutors, Read, Shared

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1800)]
# Spark reads a UUID as text
KNOWN = [name for name in cases.ALL if name != "uuid"]
# in Spark no two maps are equal, so that neither its row diffs nor its MERGE take them for keys
MAPS = [name for name in KNOWN if isinstance(EDGES[name].type, MapType)]
KEYS = [name for name in KNOWN if name not in MAPS]


@pytest.fixture(autouse=True)
def _by_both(monkeypatch: pytest.MonkeyPatch, both: BothExecutors, read_by_spark: Read) -> None:
    """Row diffs and changelogs by both."""
    monkeypatch.setattr(histories, "read_changelog", agree(read_by_spark))


@cases.in_styles("vectors")
def test_as_values(tmp_path: Path, shared: Shared, both: BothExecutors, style: str) -> None:
    history, changed = cases.as_values(tmp_path, style, KNOWN)
    cases.check_values(history, changed)
    assert both.by_spark
    check_merged(history, ["id"], shared, first=1)


@cases.in_styles("positions")
def test_as_parts_of_a_key(tmp_path: Path, shared: Shared, both: BothExecutors, style: str) -> None:
    history, count = cases.as_keys(tmp_path, style, KEYS)
    cases.check_key(history, KEYS, count)
    assert both.by_spark
    check_merged(history, KEYS, shared, first=1)


@pytest.mark.parametrize("name", KEYS)
def test_as_a_key(tmp_path: Path, shared: Shared, name: str) -> None:
    history, count = cases.as_keys(tmp_path, "rewritten files", [name])
    cases.check_key(history, [name], count)
    laws.check_diff(history, [name], history.states[1], history.states[2])
    laws.check_range(history, [name], 1)
    check_merged(history, [name], shared, first=1)


@pytest.mark.parametrize("name", MAPS)
def test_a_map_as_a_key(tmp_path: Path, shared: Shared, name: str) -> None:
    """Of changelogs alone; row diffs go to the other executor, and a MERGE is refused."""
    history, count = cases.as_keys(tmp_path, "rewritten files", [name])
    cases.check_key(history, [name], count)
    with pytest.raises(
        Exception, match=f"apply_changelog failed: Spark matches no rows by '{name}', which holds a map"
    ):
        check_merged(history, [name], shared, first=1)


def test_the_thousandth_column_is_the_key(tmp_path: Path) -> None:
    cases.test_the_thousandth_column_is_the_key(tmp_path)
