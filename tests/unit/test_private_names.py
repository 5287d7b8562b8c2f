"""Private names of libraries that the product rests on: an upgrade that moves one fails here first, by its name.

Where a reason has gone (a library can do by itself what the name was for), the last tests of this file fail: then the
code that rests on it goes too.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from django.db.models import query as django_query
from django.db.models.sql.compiler import SQLCompiler
from pyiceberg import schema as iceberg_schema
from pyiceberg.io import pyarrow as iceberg_arrow
from pyiceberg.io.pyarrow import ArrowProjectionVisitor
from pyiceberg.manifest import FileFormat, ManifestEntry
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import snapshot as iceberg_snapshot
from pyiceberg.types import ListType, NestedField, StringType, StructType
from pyspark.sql.connect import udf as spark_udf
from xdist.scheduler import LoadScopeScheduling

from jobs import exact_times, nulls

PYICEBERG = "https://github.com/apache/iceberg-python/blob/main/pyiceberg"
DJANGO = "https://github.com/django/django/blob/stable/5.2.x/django/db/models"
SPARK = "https://github.com/apache/spark/blob/branch-4.1/python/pyspark/sql/connect"
XDIST = "https://github.com/pytest-dev/pytest-xdist/blob/master/src/xdist/scheduler/loadscope.py"
SNAPSHOT = f"{PYICEBERG}/table/update/snapshot.py"
ARROW = f"{PYICEBERG}/io/pyarrow.py"
PRODUCER_STARTS = "operation transaction io commit_uuid snapshot_properties branch"
FUNCTIONS: list[tuple[object, str, str, str]] = [
    # webapp/core/prepared.py: a token with its user in 28 µs instead of 280
    (django_query, "get_related_populators", "klass_info select db", f"{DJANGO}/query.py"),
    (SQLCompiler, "get_converters", "self expressions", f"{DJANGO}/sql/compiler.py"),
    # jobs/engine/write/version3.py, jobs/engine/write/writer.py: an append to version 3 in 24 ms instead of Spark's 860
    (iceberg_snapshot, "_SnapshotProducer", PRODUCER_STARTS, SNAPSHOT),
    (iceberg_snapshot, "_FastAppendFiles", PRODUCER_STARTS, SNAPSHOT),
    (iceberg_snapshot, "_new_manifest_list_file_name", "snapshot_id attempt commit_uuid", SNAPSHOT),
    (iceberg_snapshot._SnapshotProducer, "_manifests", "self", SNAPSHOT),
    (iceberg_snapshot._SnapshotProducer, "_existing_manifests", "self", SNAPSHOT),
    (iceberg_snapshot._SnapshotProducer, "_deleted_entries", "self", SNAPSHOT),
    (iceberg_snapshot._SnapshotProducer, "_summary", "self snapshot_properties", SNAPSHOT),
    (iceberg_snapshot._SnapshotProducer, "_commit", "self", SNAPSHOT),
    (iceberg_snapshot._SnapshotProducer, "_validate_concurrency", "self", SNAPSHOT),
    (iceberg_snapshot._SnapshotProducer, "_build_delete_files_partition_predicate", "self", SNAPSHOT),
    # jobs/engine/write/writer.py: a partitioned table of several manifests is changed without failing now and then
    (iceberg_snapshot, "_OverwriteFiles", PRODUCER_STARTS, SNAPSHOT),
    (iceberg_snapshot._SnapshotProducer, "_build_manifest_evaluator", "self spec_id", SNAPSHOT),
    (iceberg_arrow, "_dataframe_to_data_files", "table_metadata df io write_uuid counter", ARROW),
    # jobs/engine/write/schemas.py
    (iceberg_arrow, "_pyarrow_to_schema_without_ids", "schema downcast_ns_timestamp_to_us format_version", ARROW),
    (iceberg_schema, "_SetFreshIDs", "next_id_func", f"{PYICEBERG}/schema.py"),
    # jobs/engine/read/first_rows.py, jobs/exact_times.py
    (iceberg_arrow, "_get_file_format", "file_format kwargs", ARROW),
    # jobs/nulls.py: 20,000 of 20,000 NULLs kept instead of none, for 3 ms in 100,000 rows
    (ArrowProjectionVisitor, "list", "self list_type list_array value_array", ARROW),
    (ArrowProjectionVisitor, "map", "self map_type map_array key_result value_result", ARROW),
    # jobs/entrypoints/usercode.py
    (spark_udf, "_parse_datatype_string", "s", f"{SPARK}/udf.py"),
    # tests/conftest.py: files stay together, which xdist's own groups do not do (pytest-xdist #1386)
    (LoadScopeScheduling, "_split_scope", "self nodeid", XDIST),
]
LISTS = Schema(NestedField(1, "l", ListType(2, StructType(NestedField(3, "s", StringType())))))


@pytest.mark.parametrize(("owner", "name", "parameters", "upstream"), FUNCTIONS, ids=[row[1] for row in FUNCTIONS])
def test_a_private_function_takes_what_it_took(owner: object, name: str, parameters: str, upstream: str) -> None:
    assert hasattr(owner, name), f"{name} has gone: see {upstream}"
    signature = inspect.signature(getattr(owner, name))
    assert list(signature.parameters) == parameters.split(), f"{name} has changed: see {upstream}"


def test_a_compiler_of_django_says_how_its_rows_are_read() -> None:
    """For webapp/core/prepared.py; see django/db/models/sql/compiler.py upstream."""
    from webapp.accounts.models import Token

    tokens = Token.objects.select_related("user")
    compiler = tokens.query.get_compiler(using="default")
    compiler.as_sql()
    assert compiler.klass_info is not None
    assert {"model", "select_fields", "related_klass_infos"} <= set(compiler.klass_info)
    assert issubclass(tokens._iterable_class, django_query.ModelIterable)
    assert issubclass(tokens.values_list("pk")._iterable_class, django_query.ValuesListIterable)


def test_a_record_of_pyiceberg_keeps_its_values_by_position() -> None:
    """For jobs/engine/read/listing.py, metadata.py and version3.py; see pyiceberg/typedef.py upstream."""
    entry = ManifestEntry.from_args(snapshot_id=7)
    assert isinstance(entry._data, list)
    assert entry._data[1] == entry.snapshot_id == 7


def test_pyiceberg_still_writes_no_manifests_of_version_3() -> None:
    """The reason for jobs/engine/write/version3.py."""
    write: Callable[..., Any] = iceberg_snapshot.write_manifest
    with pytest.raises(ValueError, match="Cannot write manifest for table version: 3"):
        write(3, PartitionSpec(), LISTS, io.BytesIO(), 1, "null")


def test_pyiceberg_still_loses_a_null_list_of_structs() -> None:
    """The reason for jobs/nulls.py; https://github.com/apache/iceberg-python/issues/3833 upstream."""
    nulls.install()
    rebuild: Callable[..., pa.Array] = inspect.unwrap(ArrowProjectionVisitor.list)
    (field,) = LISTS.fields
    array = pa.array([None, [{"s": "a"}]], pa.list_(pa.struct([("s", pa.string())])))
    visitor = ArrowProjectionVisitor(LISTS)
    assert rebuild(visitor, field.field_type, array, array.values).null_count == 0
    assert ArrowProjectionVisitor.list(visitor, field.field_type, array, array.values).null_count == 1


def test_pyiceberg_still_reads_int96_as_nanoseconds() -> None:
    """The reason for jobs/exact_times.py."""
    exact_times.install()
    make: Callable[..., Any] = inspect.unwrap(iceberg_arrow._get_file_format)
    assert make(FileFormat.PARQUET).read_options.coerce_int96_timestamp_unit == "ns"
    assert iceberg_arrow._get_file_format(FileFormat.PARQUET).read_options.coerce_int96_timestamp_unit == "us"
