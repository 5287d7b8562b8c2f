"""What pages and REST say of a dataset's branches, and what the catalog shows there, after any history of clients' commits.

PyIceberg as it is writes several branches of one table; whatever it did, `/schema`, `/preview`, `/branches`, the ends of a
comparison and the history must tell of each branch what PyIceberg itself reads there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from django.db import transaction as database
from hypothesis import HealthCheck, Phase, assume
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from pyiceberg.exceptions import BadRequestError, ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField, StringType
from rest_framework.test import APIClient

from tests.factories import datasets as make
from tests.factories.catalog import set_ref
from webapp.accounts.services import create_token
from webapp.catalog import queries as catalog
from webapp.catalog.rules import lens
from webapp.catalog.rules.metadata import current_snapshot_id
from webapp.comparisons.queries import ends
from webapp.datasets import queries, services

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
BRANCHES = ("master", "p3-a", "p3-x", "q/y")
NAMES = ("u", "v", "w")
TYPES = {"int": IntegerType(), "float": FloatType(), "string": StringType()}
WIDER = {"int": LongType(), "float": DoubleType()}
_numbers = itertools.count(1)


def find(items: Iterable[dict[str, Any]], key: str, number: int) -> dict[str, Any]:
    return next(item for item in items if item[key] == number)


@dataclass(frozen=True)
class Shown:
    """What a client reads on a branch."""

    columns: tuple[tuple[int, str, str], ...]
    spec: tuple[tuple[int, str], ...]
    order: tuple[int, ...]
    head: int | None
    properties: tuple[tuple[str, str], ...]


class ClientHistories(RuleBasedStateMachine):
    """Does at random what clients do to a table's branches, and asks after each step what everybody says of them."""

    def __init__(self) -> None:
        super().__init__()
        self.block = database.atomic()
        self.block.__enter__()
        self.user = make.a_user(f"histories{next(_numbers)}")
        self.plain = make.a_client(self.user)
        self.iceberg = {name: make.a_pyiceberg(self.user, "" if name == "master" else name) for name in BRANCHES}
        self.api = APIClient()
        self.api.credentials(HTTP_AUTHORIZATION=f"Bearer {create_token(user=self.user, name='rest')[1]}")
        self.namespace = f"histories{next(_numbers)}"
        self.asked: dict[str, Any] = {}
        self.previewed: dict[str, Any] = {}
        self.moved = True
        self.drops = 0

    def teardown(self) -> None:
        database.set_rollback(True)
        self.block.__exit__(None, None, None)

    @initialize(branch=st.sampled_from(BRANCHES))
    def begin(self, branch: str) -> None:
        self.iceberg["master"].create_namespace(self.namespace)
        self.create_table(branch)

    # --- what the steps need ---------------------------------------------------------------------------------------

    def create_table(self, branch: str) -> None:
        columns = NestedField(1, "id", LongType()), NestedField(2, "v", IntegerType())
        self.iceberg[branch].create_table((self.namespace, "t"), schema=Schema(*columns))
        self.dataset = queries.get_dataset(make.who(self.user), f"/{self.namespace}/t")

    def load(self, branch: str) -> Any:
        return self.iceberg[branch].load_table((self.namespace, "t"))

    def shown(self, branch: str) -> Shown:
        """What the catalog answers a client on a branch."""
        answer = self.plain.on(None if branch == "master" else branch).load(self.dataset.table)
        assert answer.status == 200, answer.body
        view = answer.metadata
        schema = find(view["schemas"], "schema-id", view["current-schema-id"])
        spec = find(view["partition-specs"], "spec-id", view["default-spec-id"])
        order = find(view["sort-orders"], "order-id", view["default-sort-order-id"])
        properties = {key: value for key, value in view["properties"].items() if not key.startswith("foundry.branch.")}
        return Shown(
            columns=tuple((field["id"], field["name"], field["type"]) for field in schema["fields"]),
            spec=tuple((field["source-id"], field["transform"]) for field in spec["fields"]),
            order=tuple(field["source-id"] for field in order["fields"]),
            head=current_snapshot_id(view),
            properties=tuple(sorted(properties.items())),
        )

    def free_columns(self, table: Any) -> list[str]:
        """Columns that may go: at least one stays, and what spec and order are made of."""
        used = {field.source_id for spec in table.specs().values() for field in spec.fields}
        used |= {field.source_id for order in table.sort_orders().values() for field in order.fields}
        return [field.name for field in table.schema().fields if field.field_id not in used and field.name != "id"]

    def changing(self, branch: str) -> _Changing:
        return _Changing(self, branch)

    def rows(self, table: Any) -> pa.Table:
        arrow = table.schema().as_arrow()
        return pa.table({field.name: pa.array([None], field.type) for field in arrow}, schema=arrow)

    def snapshots(self) -> list[int]:
        return [snapshot["snapshot-id"] for snapshot in catalog.get_metadata(table=self.dataset.table)["snapshots"]]

    def can_read(self, branch: str, number: int) -> bool:
        """Whether PyIceberg reads a snapshot by the schema of a branch."""
        table = self.load(branch)
        if not table.schema().fields:
            return True
        table.metadata = table.metadata.model_copy(update={"current_snapshot_id": number})
        try:
            table.scan().to_arrow()
        except ResolveError:
            return False
        return True

    def refuse(self, client: Any, update: dict[str, Any]) -> None:
        before = catalog.get_metadata(table=self.dataset.table), self.dataset.transactions.count()
        answer = client.commit(self.dataset.table, update)
        assert answer.status == 400, answer.body
        assert f"cannot be set to snapshot {update['snapshot-id']}: column " in answer.error[1]
        assert (catalog.get_metadata(table=self.dataset.table), self.dataset.transactions.count()) == before

    # --- what clients do -------------------------------------------------------------------------------------------

    @rule(branch=st.sampled_from(BRANCHES), name=st.sampled_from(NAMES), kind=st.sampled_from(sorted(TYPES)))
    def add_column(self, branch: str, name: str, kind: str) -> None:
        table = self.load(branch)
        assume(name not in table.schema().column_names)
        with self.changing(branch), table.update_schema() as update:
            update.add_column(name, TYPES[kind])

    @rule(branch=st.sampled_from(BRANCHES), data=st.data(), name=st.sampled_from(NAMES))
    def rename_column(self, branch: str, data: st.DataObject, name: str) -> None:
        table = self.load(branch)
        free = self.free_columns(table)
        assume(free and name not in table.schema().column_names)
        with self.changing(branch), table.update_schema() as update:
            update.rename_column(data.draw(st.sampled_from(free)), name)

    @rule(branch=st.sampled_from(BRANCHES), data=st.data())
    def delete_column(self, branch: str, data: st.DataObject) -> None:
        table = self.load(branch)
        free = self.free_columns(table)
        assume(free)
        with self.changing(branch), table.update_schema() as update:
            update.delete_column(data.draw(st.sampled_from(free)))

    @rule(branch=st.sampled_from(BRANCHES), data=st.data())
    def promote_column(self, branch: str, data: st.DataObject) -> None:
        table = self.load(branch)
        narrow = [field.name for field in table.schema().fields if str(field.field_type) in WIDER]
        assume(narrow)
        name = data.draw(st.sampled_from(narrow))
        with self.changing(branch), table.update_schema() as update:
            update.update_column(name, WIDER[str(table.schema().find_type(name))])

    @rule(branch=st.sampled_from(BRANCHES))
    def partition_by_id(self, branch: str) -> None:
        table = self.load(branch)
        assume("id" in table.schema().column_names)
        with self.changing(branch), table.update_spec() as update:
            if table.spec().fields:
                update.remove_field(table.spec().fields[0].name)
            else:
                update.add_field("id", IdentityTransform(), "id_part")

    @rule(branch=st.sampled_from(BRANCHES))
    def order_by_id(self, branch: str) -> None:
        table = self.load(branch)
        assume("id" in table.schema().column_names and not table.sort_order().fields)
        with self.changing(branch), table.update_sort_order() as update:
            update.asc("id", IdentityTransform())

    @rule(branch=st.sampled_from(BRANCHES), value=st.sampled_from("ab"))
    def set_property(self, branch: str, value: str) -> None:
        table = self.load(branch)
        assume(table.properties.get("owner") != value)
        with self.changing(branch), table.transaction() as change:
            change.set_properties(owner=value)

    @rule(branch=st.sampled_from(BRANCHES))
    def append(self, branch: str) -> None:
        table = self.load(branch)
        with self.changing(branch):
            table.append(self.rows(table))

    @rule(name=st.sampled_from(BRANCHES[1:]))
    def append_without_the_header(self, name: str) -> None:
        """Standard Iceberg: rows of master's schema go to the branch that is named, if its own schema can read them."""
        table = self.load("master")
        assume(table.schema().fields and table.metadata.snapshots)  # PyIceberg begins a table on main
        if all(_is_read_as(field, self.load(name).schema()) for field in table.schema().fields):
            with self.changing(name):
                table.append(self.rows(table), branch=name)
        else:
            with pytest.raises(BadRequestError, match=f"Branch {name} cannot be set to snapshot"):
                table.append(self.rows(table), branch=name)

    @rule(branch=st.sampled_from(BRANCHES))
    def overwrite(self, branch: str) -> None:
        table = self.load(branch)
        with self.changing(branch):
            table.overwrite(self.rows(table))

    @rule(branch=st.sampled_from(BRANCHES))
    def delete_rows(self, branch: str) -> None:
        table = self.load(branch)
        assume(table.current_snapshot() is not None and table.scan().count())
        with self.changing(branch):
            table.delete()

    @rule(branch=st.sampled_from(BRANCHES), name=st.sampled_from(BRANCHES[1:]), data=st.data())
    def point_branch(self, branch: str, name: str, data: st.DataObject) -> None:
        """Make a branch by its ref, or move it: forward, back or to another line; with the header or without."""
        assume(self.snapshots())
        number = data.draw(st.sampled_from(self.snapshots()))
        if branch not in ("master", name):
            return
        # Without the header a branch that is not there yet gets master's schema.
        is_new = lens.own_state(catalog.get_metadata(table=self.dataset.table), name) is None
        client = self.plain.on(None if branch == "master" else name)
        if self.can_read("master" if branch == "master" and is_new else name, number):
            assert client.commit(self.dataset.table, set_ref(name, number)).status == 200
        else:
            self.refuse(client, set_ref(name, number))

    @rule(branch=st.sampled_from(BRANCHES), data=st.data())
    def roll_back(self, branch: str, data: st.DataObject) -> None:
        assume(self.snapshots())
        number = data.draw(st.sampled_from(self.snapshots()))
        assume(number != self.shown(branch).head)
        client = self.plain.on(None if branch == "master" else branch)
        if not self.can_read(branch, number):
            self.refuse(client, set_ref("main", number))
            return
        with self.changing(branch):
            assert client.commit(self.dataset.table, set_ref("main", number)).status == 200

    @rule(name=st.sampled_from(BRANCHES[1:]))
    def remove_branch(self, name: str) -> None:
        self.plain.commit(self.dataset.table, {"action": "remove-snapshot-ref", "ref-name": name})

    @rule(name=st.sampled_from(BRANCHES[1:]), parent=st.sampled_from(BRANCHES))
    def create_branch_by_hand(self, name: str, parent: str) -> None:
        assume(queries.find_branch(self.dataset, name) is None and queries.find_branch(self.dataset, parent))
        answer = self.api.post(self.url("/branches"), {"name": name, "parent": parent}, format="json")
        assert answer.status_code == 201, answer.content

    @rule(name=st.sampled_from(BRANCHES[1:]))
    def delete_branch_by_hand(self, name: str) -> None:
        assume(queries.find_branch(self.dataset, name) is not None)
        services.delete_branch(dataset=self.dataset, name=name, by=make.who(self.user))

    @rule(branch=st.sampled_from(BRANCHES), name=st.sampled_from(NAMES), commits=st.booleans())
    def write_in_a_transaction(self, branch: str, name: str, commits: bool) -> None:  # noqa: FBT001 - drawn
        """What a job does: it evolves and writes a staging branch, which is published or given up."""
        chain = (branch, *queries.get_fallback_chain(path=self.dataset.path, branch=branch))
        opened = make.a_transaction(self.dataset, self.user, branch=branch, chain=chain)
        table = make.a_pyiceberg(self.user, opened.staging_branch).load_table((self.namespace, "t"))
        if name not in table.schema().column_names:
            with table.update_schema() as update:
                update.add_column(name, StringType())
        table.append(self.rows(table))
        if commits:
            make.commit(opened, self.user)
        else:
            services.abort_transaction(transaction=opened, reason="model")

    @rule(branch=st.sampled_from(BRANCHES))
    def drop_and_create_again(self, branch: str) -> None:
        assume(self.drops == 0)
        self.drops += 1
        self.iceberg["master"].drop_table((self.namespace, "t"))
        self.asked.clear()
        self.previewed.clear()
        self.create_table(branch)

    # --- what everybody says ---------------------------------------------------------------------------------------

    def url(self, rest: str) -> str:
        return f"/api/v1/datasets/{self.dataset.pk}{rest}"

    def get(self, rest: str, **parameters: str) -> dict[str, Any]:
        answer = self.api.get(self.url(rest), parameters)
        assert answer.status_code == 200, answer.content
        body: dict[str, Any] = answer.json()
        return body

    @invariant()
    def everybody_says_the_same(self) -> None:
        if not hasattr(self, "dataset"):
            return
        listed = self.check_branches()
        for name in BRANCHES:
            shown = self.shown(name)
            # What neither the catalog nor the database has moved was asked about before.
            state = (shown, str(listed.get(name)), queries.get_fallback_chain(path=self.dataset.path, branch=name))
            if self.asked.get(name) != state or (name not in listed and self.moved):
                self.check_schema(name, shown)
                self.check_preview(name, shown)
                self.asked[name] = state
        self.moved = False

    def check_branches(self) -> dict[str, Any]:
        metadata = catalog.get_metadata(table=self.dataset.table)
        listed = {branch["name"]: branch["transaction"] for branch in self.get("/branches")["results"]}
        assert {name for name in lens.branches_of(metadata) if not name.startswith("_")} <= listed.keys()
        for name, row in listed.items():
            pointer = lens.pointer(metadata, name)
            if row is not None and pointer is not None:
                said = tuple(row[key] for key in ("snapshot_id", "schema_id", "spec_id", "order_id"))
                assert said == (pointer.snapshot_id, pointer.schema_id, pointer.spec_id, pointer.order_id), name
        return listed

    def check_schema(self, name: str, shown: Shown) -> None:
        current = self.get("/schema", branch=name)
        views = [current]
        if current["transaction"] is not None:
            views.append(self.get("/schema", transaction=current["transaction"]))
            assert queries.get_transaction(self.dataset, current["transaction"]).snapshot_id == shown.head, name
        for view in views:
            said = [(column["id"], column["name"], column["type"]) for column in view["columns"]]
            assert said == list(shown.columns), name
            spec = [(field["source-id"], field["transform"]) for field in view["partition_spec"]["fields"]]
            assert spec == list(shown.spec), name
            assert [field["source-id"] for field in view["sort_order"]["fields"]] == list(shown.order), name
        self.check_history(name, current["transaction"])
        if queries.find_branch(self.dataset, name) is not None:
            end = ends.find_end(self.dataset, name, field="to").transaction
            assert (None if end is None else end.pk) == current["transaction"], name

    def check_history(self, name: str, current: str | None) -> None:
        listed = [row for row in self.get("/transactions", branch=name)["results"] if row["state"] == "COMMITTED"]
        assert [row["id"] for row in listed[:1]] == ([] if current is None else [current]), name
        for later, earlier in itertools.pairwise(listed):
            assert later["parent"] == earlier["id"], name
        assert not listed or listed[-1]["parent"] is None

    def check_preview(self, name: str, shown: Shown) -> None:
        state = (shown.columns, shown.head)
        if self.previewed.get(name) != state:
            page = self.get("/preview", branch=name)
            assert [column["name"] for column in page["columns"]] == [column for _, column, _ in shown.columns], name
            if shown.columns:  # rows without columns are counted by clients and shown by nobody
                assert len(page["rows"]) == (0 if shown.head is None else self.load(name).scan().count()), name
            self.previewed[name] = state


def _is_read_as(field: NestedField, schema: Schema) -> bool:
    own = {column.field_id: column.field_type for column in schema.fields}.get(field.field_id, field.field_type)
    try:
        return own == field.field_type or promote(field.field_type, own) == own
    except ResolveError:
        return False


@dataclass
class _Changing:
    """A client's commit to a branch: one transaction of that branch; others follow only where they have no ids of their own.

    A branch that the commit only makes, or that had nothing yet, begins where another transaction ended with that one, and
    has none of its own.
    """

    machine: ClientHistories
    branch: str

    def __enter__(self) -> None:
        self.before = set(self.machine.dataset.transactions.values_list("pk", flat=True))
        self.stood = queries.find_branch(self.machine.dataset, self.branch)
        self.machine.moved = True

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> bool:
        if kind is not None:
            return issubclass(kind, BadRequestError)
        recorded = self.machine.dataset.transactions.exclude(pk__in=self.before)
        if not recorded and (self.stood is None or self.stood.transaction_id is None):
            made = queries.find_branch(self.machine.dataset, self.branch)
            assert made is not None
            assert made.transaction_id in self.before
            return False
        assert [row.branch_name for row in recorded if row.branch_name == self.branch] == [self.branch]
        assert self.branch == "master" or len(recorded) == 1
        return False


def _run(*, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        ClientHistories,
        settings=hypothesis_settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.reuse, Phase.generate],
            database=None,
            print_blob=True,
        ),
    )


@pytest.mark.parametrize(
    ("examples", "steps"),
    [
        pytest.param(4, 12, id="small"),
        pytest.param(100, 40, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
def test_everybody_says_the_same_of_every_branch(db: None, readers: Path, examples: int, steps: int) -> None:
    _run(examples=examples, steps=steps)
