"""What a real, unmodified PyIceberg sees: both worked examples, every branch state, standard Iceberg without the header."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, StringType

from tests.contract.catalog.conftest import Server
from tests.factories.tiers import further

pytestmark = pytest.mark.contract
On = Callable[..., Any]
SCORES = pa.table({"customer_id": pa.array([1, 2, 3], pa.int64()), "score": [0.91, 0.74, 0.88]})


def rows(catalog: Any, table: tuple[str, ...]) -> list[dict[str, Any]]:
    return sorted(catalog.load_table(table).scan().to_arrow().to_pylist(), key=lambda row: str(row))


def names(catalog: Any, table: tuple[str, ...]) -> list[str]:
    return [column.name for column in catalog.load_table(table).schema().fields]


def state(catalog: Any, table: tuple[str, ...]) -> tuple[Any, ...]:
    """Everything that is branch-scoped, as main sees it, with its rows."""
    metadata = catalog.load_table(table).metadata
    return (
        metadata.current_schema_id,
        metadata.default_spec_id,
        metadata.default_sort_order_id,
        metadata.current_snapshot_id,
        metadata.snapshot_log,
        rows(catalog, table),
    )


def test_creating_a_table_on_a_branch(on: On, namespace: str) -> None:
    """The first worked example: the branch owns schema and data, main has an empty schema and no data."""
    table = (namespace, "customer_scores")
    branch = on("feature/customer-scores")
    branch.create_table(table, schema=SCORES.schema).append(SCORES)
    assert len(rows(branch, table)) == 3
    assert names(on(), table) == []
    assert on().load_table(table).current_snapshot() is None
    assert names(on("another"), table) == []
    properties = on().load_table(table).properties
    assert properties["foundry.branch.feature/customer-scores.schema-id"] == "0"


def test_evolving_a_table_on_a_branch(on: On, namespace: str) -> None:
    """The second worked example: a new column and a new type on the branch; main does not notice."""
    table = (namespace, "customer_scores")
    on().create_table(table, schema=SCORES.schema).append(SCORES)
    before = state(on(), table)
    branch = on("feature/scoring-v2")
    assert len(rows(branch, table)) == 3
    loaded = branch.load_table(table)
    with loaded.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("customer_id")
    with loaded.update_schema() as update:
        update.add_column("customer_id", StringType())
        update.add_column("score_v2", DoubleType())
    data = pa.table({"customer_id": ["c1", "c2"], "score": [0.1, 0.2], "score_v2": [0.3, 0.4]})
    loaded.overwrite(data)
    assert rows(branch, table) == [{**row, "score": row["score"]} for row in rows(branch, table)]
    assert sorted(names(branch, table)) == ["customer_id", "score", "score_v2"]
    assert branch.load_table(table).schema().find_type("customer_id") == StringType()
    assert {row["customer_id"] for row in rows(branch, table)} == {"c1", "c2"}
    assert state(on(), table) == before
    assert names(on(), table) == ["customer_id", "score"]


def test_spec_order_and_properties(on: On, namespace: str) -> None:
    table = (namespace, "t")
    on().create_table(table, schema=SCORES.schema).append(SCORES)
    before = state(on(), table)
    loaded = on("b").load_table(table)
    with loaded.update_spec() as update:
        update.add_field("customer_id", IdentityTransform(), "customer")
    with loaded.update_sort_order() as order:
        order.asc("score", IdentityTransform())
    loaded.append(SCORES)
    assert [field.name for field in on("b").load_table(table).spec().fields] == ["customer"]
    assert on("b").load_table(table).sort_order().order_id == 1
    assert len(rows(on("b"), table)) == 6
    assert state(on(), table) == before
    with loaded.transaction() as transaction:
        transaction.set_properties(owner="me")
    assert on().load_table(table).properties["owner"] == "me"


def test_created_with_spec_order_and_properties_in_a_transaction(on: On, namespace: str) -> None:
    """Stage-create and assert-create: what the data files carry stays true on the branch."""
    table = (namespace, "staged")
    schema = on("b").create_table((namespace, "other"), schema=SCORES.schema).schema()
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "customer_id"))
    order = SortOrder(SortField(2, IdentityTransform()))
    with on("b").create_table_transaction(table, schema, partition_spec=spec, sort_order=order) as transaction:
        transaction.append(SCORES)
    loaded = on("b").load_table(table)
    assert loaded.metadata.default_spec_id == 0
    assert len(rows(on("b"), table)) == 3
    assert [task.file.partition[0] for task in loaded.scan(row_filter="customer_id = 2").plan_files()] == [2]
    assert names(on(), table) == []
    with pytest.raises(CommitFailedException, match="already exists"):
        with on("b").create_table_transaction((namespace, "x"), schema) as late:
            on("b").create_table((namespace, "x"), schema=SCORES.schema)
            late.append(SCORES)
    with pytest.raises(TableAlreadyExistsError):
        on("b").create_table_transaction(table, schema)


def test_a_placeholder_is_free_for_another_branch_and_taken_on_main(on: On, namespace: str) -> None:
    table = (namespace, "t")
    on("a").create_table(table, schema=SCORES.schema).append(SCORES)
    with pytest.raises(TableAlreadyExistsError):
        on().create_table(table, schema=SCORES.schema)
    with pytest.raises(TableAlreadyExistsError):
        on("a").create_table(table, schema=SCORES.schema)
    other = pa.table({"customer_id": pa.array([7], pa.int64()), "name": ["x"]})
    on("b").create_table(table, schema=other.schema).append(other)
    assert rows(on("b"), table) == [{"customer_id": 7, "name": "x"}]
    assert len(rows(on("a"), table)) == 3
    ids = {column.name: column.field_id for column in on("b").load_table(table).schema().fields}
    assert ids["customer_id"] == on("a").load_table(table).schema().find_field("customer_id").field_id
    assert ids["name"] == 3
    staged = (namespace, "staged")
    on("a").create_table(staged, schema=SCORES.schema)
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "customer_id"))
    schema = on("a").load_table(staged).schema()
    with on("c").create_table_transaction(staged, schema, partition_spec=spec) as transaction:
        transaction.append(SCORES)
    assert len(rows(on("c"), staged)) == 3
    assert on("c").load_table(staged).metadata.default_spec_id == 1


def test_the_same_name_and_type_on_main_gets_the_same_id(on: On, namespace: str) -> None:
    table = (namespace, "t")
    on().create_table(table, schema=SCORES.schema)
    for branch in ("b", None):
        with on(branch).load_table(table).update_schema() as update:
            update.add_column("extra", StringType())
        assert on(branch).load_table(table).schema().find_field("extra").field_id == 3 if branch else True
    ids = [on(branch).load_table(table).schema().find_field("extra").field_id for branch in ("b", None)]
    assert ids == [3, 4]


def test_without_the_header_it_is_standard_iceberg(on: On, namespace: str) -> None:
    table = (namespace, "t")
    plain = on()
    loaded = plain.create_table(table, schema=SCORES.schema)
    loaded.append(SCORES)
    first = loaded.refresh().current_snapshot().snapshot_id
    with loaded.manage_snapshots() as manage:
        manage.create_branch(first, "side")
        manage.create_tag(first, "v1")
    loaded.append(SCORES, branch="side")
    assert len(rows(plain, table)) == 3
    assert plain.load_table(table).scan().use_ref("side").to_arrow().num_rows == 6
    assert plain.load_table(table).scan().use_ref("v1").to_arrow().num_rows == 3
    assert plain.load_table(table).scan(snapshot_id=first).to_arrow().num_rows == 3
    with loaded.update_schema() as update:
        update.add_column("extra", StringType())
    assert names(on("side"), table) == ["customer_id", "score", "extra"]
    with loaded.manage_snapshots() as manage:
        manage.remove_branch("side")
    assert "side" not in plain.load_table(table).refs()
    assert len(rows(on("side"), table)) == 3


def test_removing_the_branch_removes_what_it_tracked(on: On, namespace: str) -> None:
    table = (namespace, "t")
    on().create_table(table, schema=SCORES.schema).append(SCORES)
    on("b").load_table(table).append(SCORES)
    with on().load_table(table).manage_snapshots() as manage:
        manage.remove_branch("b")
    assert not [key for key in on().load_table(table).properties if key.startswith("foundry.")]
    assert len(rows(on("b"), table)) == 3


def test_a_branch_cannot_reach_beyond_itself(on: On, namespace: str) -> None:
    table = (namespace, "t")
    on().create_table(table, schema=SCORES.schema)
    branch = on("b")
    for call in (
        lambda: branch.drop_table(table),
        lambda: branch.purge_table(table),
        lambda: branch.rename_table(table, (namespace, "u")),
        lambda: branch.drop_namespace(namespace),
        lambda: branch.update_namespace_properties(namespace, updates={"a": "1"}),
    ):
        with pytest.raises(ForbiddenError, match="cannot be called from branch b"):
            call()
    branch.create_namespace((namespace, "inner"))
    assert on().list_namespaces(namespace) == [(namespace, "inner")]


@pytest.mark.parametrize("name", ["", "a b", "x" * 201, "MAIN", "a..b", "-a"])
def test_an_illegal_header_is_a_400(server: Server, name: str) -> None:
    with pytest.raises((BadRequestError, ValueError), match="X-PLTR-Branch|Invalid"):
        server.pyiceberg(name).list_namespaces()


@pytest.mark.parametrize("name", ["master", "main"])
def test_master_as_header_is_no_header(on: On, namespace: str, name: str) -> None:
    on(name).create_table((namespace, "t"), schema=SCORES.schema).append(SCORES)
    assert len(rows(on(), (namespace, "t"))) == 3
    assert not [key for key in on().load_table((namespace, "t")).properties if key.startswith("foundry.")]


def test_namespaces_tables_and_names_of_every_kind(on: On, namespace: str) -> None:
    catalog = on()
    odd = (namespace, "a.b c", "d/e%f+g")
    catalog.create_namespace(odd, {"owner": "me"})
    assert catalog.load_namespace_properties(odd)["owner"] == "me"
    assert catalog.list_namespaces((namespace, "a.b c")) == [odd]
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(odd)
    table = (*odd, "t/x y.z%+")
    catalog.create_table(table, schema=SCORES.schema).append(SCORES)
    assert catalog.list_tables(odd) == [table]
    assert catalog.table_exists(table)
    assert len(rows(on("b/c"), table)) == 3
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(odd)
    summary = catalog.update_namespace_properties(odd, removals={"owner", "absent"}, updates={"team": "x"})
    assert (summary.updated, summary.removed, summary.missing) == (["team"], ["owner"], ["absent"])
    catalog.rename_table(table, (namespace, "plain"))
    assert not catalog.table_exists(table)
    assert len(rows(catalog, (namespace, "plain"))) == 3
    catalog.drop_namespace(odd)
    assert not catalog.namespace_exists(odd)
    for call in (
        lambda: catalog.load_namespace_properties(odd),
        lambda: catalog.list_tables(odd),
        lambda: catalog.create_table(table, schema=SCORES.schema),
    ):
        with pytest.raises(NoSuchNamespaceError):
            call()


def test_drop_purge_and_register(server: Server, on: On, namespace: str) -> None:
    catalog = on()
    table = (namespace, "t")
    loaded = catalog.create_table(table, schema=SCORES.schema)
    loaded.append(SCORES)
    folder = server.home / "warehouse"
    location = catalog.load_table(table).metadata_location
    catalog.drop_table(table)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(table)
    again = catalog.register_table((namespace, "again"), location)
    assert again.scan().to_arrow().num_rows == 3
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table((namespace, "twice"), location)
    catalog.purge_table((namespace, "again"))
    assert not list(folder.glob(f"{namespace}/t-*"))
    for outside in ("file:///etc/passwd", "s3://bucket/x.json", f"{folder.as_uri()}/../x.json"):
        with pytest.raises(BadRequestError):
            catalog.register_table((namespace, "x"), outside)


def test_oauth_client_credentials(server: Server) -> None:
    properties = {"type": "rest", "uri": server.uri}
    assert load_catalog("t", **properties, credential=f"admin:{server.token}").list_namespaces() is not None
    for wrong in (f"somebody:{server.token}", "admin:nonsense"):
        with pytest.raises(Exception, match="invalid_client"):
            load_catalog("t", **properties, credential=wrong)
    with pytest.raises(UnauthorizedError):
        load_catalog("t", **properties, token="nonsense").list_namespaces()


def test_version_1_and_3(on: On, namespace: str) -> None:
    for version in ("1", "3"):
        table = (namespace, f"v{version}")
        on("b").create_table(table, schema=SCORES.schema, properties={"format-version": version})
        assert on("b").load_table(table).metadata.format_version == int(version)
        assert on().load_table(table).metadata.format_version == int(version)
    on("b").load_table((namespace, "v1")).append(SCORES)
    assert len(rows(on("b"), (namespace, "v1"))) == 3


def _write(uri: str, token: str, branch: str | None, table: tuple[str, str], worker: int, commits: int) -> None:
    header = {} if branch is None else {"header.X-PLTR-Branch": branch}
    catalog = load_catalog("t", **{"type": "rest", "uri": uri, "token": token, **header})
    done = 0
    while done < commits:
        row = pa.table({"customer_id": pa.array([worker * 1000 + done], pa.int64()), "score": [0.5]})
        try:
            catalog.load_table(table).append(row)
        except CommitFailedException:
            continue
        done += 1


@further(
    "contract/catalog/test_catalog_writers.py::test_real_clients_and_bare_requests_with_and_without_the_header_lose_nothing"
)
@pytest.mark.parametrize("branches", [["a", "a", "b", None], [None] * 4])
@pytest.mark.timeout(240)
def test_four_processes_lose_nothing(server: Server, on: On, namespace: str, branches: list[str | None]) -> None:
    """Every acknowledged commit is there once, and the history of each branch is a chain."""
    table = (namespace, "t")
    on().create_table(table, schema=SCORES.schema)
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_write, args=(server.uri, server.token, branch, table, number, 20))
        for number, branch in enumerate(branches)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(200)
    assert [worker.exitcode for worker in workers] == [0] * 4
    for branch in set(branches):
        expected = sorted(number * 1000 + n for number, own in enumerate(branches) if own == branch for n in range(20))
        loaded = on(branch).load_table(table)
        found = sorted(row["customer_id"] for row in loaded.scan().to_arrow().to_pylist())
        mine = set(expected)
        assert sorted(number for number in found if number in mine) == expected
        assert len(found) == len(set(found))
        snapshots = {snapshot.snapshot_id: snapshot for snapshot in loaded.metadata.snapshots}
        chain, head = [], loaded.metadata.current_snapshot_id
        while head is not None:
            chain.append(snapshots[head].sequence_number)
            head = snapshots[head].parent_snapshot_id
        assert chain == sorted(set(chain), reverse=True)
        assert len(chain) == len(found)


def test_metadata_files_left_behind_are_exactly_the_history(server: Server, on: On, namespace: str) -> None:
    table = (namespace, "t")
    loaded = on().create_table(table, schema=SCORES.schema)
    for _ in range(3):
        loaded.append(SCORES)
    final = on().load_table(table)
    files = set((server.home / "warehouse" / namespace).glob("t-*/metadata/*.metadata.json"))
    known = {entry.metadata_file for entry in final.metadata.metadata_log} | {final.metadata_location}
    assert {path.as_uri() for path in files} == known
    assert json.loads(max(files).read_text())["table-uuid"] == str(final.metadata.table_uuid)
