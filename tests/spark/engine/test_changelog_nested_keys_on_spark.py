"""The cases of keys inside structs again, with Spark computing them and merging by them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from tests.factories.tiers import thin
from tests.property.engine_oracle import canon
from tests.spark.engine.conftest import Shared
from tests.unit.jobs import test_changelog_nested_keys as cases
from tests.unit.jobs.test_changelog_nested_keys import (  # noqa: F401 - collected here again
    test_a_field_of_a_struct_is_a_key,
    test_a_field_that_was_renamed_and_widened_is_the_same_key,
    test_a_name_with_dots_goes_before_the_path_that_reads_like_it,
    test_doubled_fields_are_refused_by_the_name_that_was_asked_for,
    test_several_fields_of_one_struct_and_a_column_are_a_key,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def _by_spark(monkeypatch: pytest.MonkeyPatch, read_by_spark: Callable[..., Any]) -> None:
    monkeypatch.setattr(cases, "read_changelog", read_by_spark)


@pytest.mark.parametrize("mode", thin(["copy-on-write", "merge-on-read"], every_run=["merge-on-read"]))
def test_a_merge_by_a_field_of_a_struct(shared: Shared, tmp_path: Path, mode: str) -> None:
    options = {
        "schema": cases.SCHEMA,
        "partition_spec": PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part")),
        "properties": {"format-version": "2", "write.merge.mode": mode},
    }
    table = shared.load(tmp_path, mode, **options)
    first = [cases.row(1, "one"), cases.row(2, "two"), cases.without_place("null"), cases.row(9, "nine", b="b")]
    shared.apply(table, cases.log_of(*((one, "INSERT") for one in first)), ["d.a"], from_empty=False)
    changed = [cases.row(1, "new", b="b", f=float("nan")), cases.row(None, "no longer null"), cases.row(5, "come")]
    log = cases.log_of(
        (cases.row(1, "one"), "UPDATE_BEFORE"),
        *((one, "UPDATE_AFTER") for one in changed),
        (cases.row(2, "two"), "DELETE"),
        (cases.row(7, "absent"), "DELETE"),
    )
    for _ in range(2):
        before = len(table.metadata.snapshots)
        assert shared.apply(table, log, ["d.a"], from_empty=False) == 6
        assert len(table.metadata.snapshots) == before + 1
        found = shared.session.table(f"tributary.{'.'.join(table.name())}").collect()
        expected = [*changed, cases.row(9, "nine", b="b")]
        assert sorted(str(canon(one.asDict(recursive=True))) for one in found) == sorted(
            str(canon(one)) for one in expected
        )
    with pytest.raises(Exception, match=r"multiple rows in destination table match key \['d.b'\]"):
        shared.apply(table, cases.log_of((cases.row(8, "x", b="b"), "INSERT")), ["d.b"], from_empty=False)
    with pytest.raises(Exception, match="Identifier column 'd.x' does not exist; there are value, d. The fields of d"):
        shared.apply(table, log, ["d.x"], from_empty=False)
    with pytest.raises(Exception, match=r"duplicate keys detected .* for identifier columns \['d.e.f'\]"):
        shared.apply(table, log, ["d.e.f"], from_empty=False)
