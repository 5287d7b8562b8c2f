"""The guarantees of dataset branches against a model in memory: the real services, catalog and database.

The model is written from the document alone. It keeps, for each branch, its parent, what it points to and what a reader
of it sees; after every step the database, the catalog and the model must tell the same.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction as database
from django.test import override_settings
from hypothesis import HealthCheck, assume, note
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.factories import datasets as make
from webapp.catalog import queries as catalog
from webapp.core.errors import Conflict
from webapp.datasets import queries, services
from webapp.datasets.models import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
NAMES = ("a", "b", "c", "d")
_numbers = itertools.count(1)


@dataclass
class Line:
    """A branch as the document has it."""

    parent: str | None
    latest: str | None = None
    """What it points to, open or committed."""
    seen: str | None = None
    """The committed transaction that its readers see."""


@dataclass
class Model:
    """All that the guarantees speak of."""

    branches: dict[str, Line] = field(default_factory=lambda: {"master": Line(parent=None)})
    open: dict[str, str] = field(default_factory=dict)
    """Open transaction → the branch it was started on."""
    before: dict[str, str | None] = field(default_factory=dict)
    """Transaction → the committed one it stands on."""
    committed: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)

    def is_blocked(self, branch: str) -> bool:
        """Whether the branch points to an open transaction, its own or a shared one."""
        return self.branches[branch].latest in self.open

    def start(self, name: str, branch: str) -> None:
        line = self.branches[branch]
        self.before[name] = line.seen
        self.open[name] = branch
        line.latest = name

    def commit(self, name: str) -> None:
        del self.open[name]
        self.committed.add(name)
        for line in self.branches.values():
            if line.latest == name:
                line.seen = name

    def abort(self, name: str) -> None:
        del self.open[name]
        self.aborted.add(name)
        for line in self.branches.values():
            if line.latest == name:
                line.latest = self.before[name]

    def delete(self, branch: str) -> None:
        gone = self.branches.pop(branch)
        for line in self.branches.values():
            if line.parent == branch:
                line.parent = gone.parent


class DatasetBranches(RuleBasedStateMachine):
    """Does at random what people do with branches, in the database and in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.block = database.atomic()
        self.block.__enter__()
        self.folder = Path(tempfile.mkdtemp(prefix="branches-"))
        self.home = override_settings(TRIBUTARY_WAREHOUSE=(self.folder / "warehouse").as_uri())
        self.home.enable()
        self.model = Model()

    @initialize()
    def begin(self) -> None:
        self.user = make.a_user(f"machine{next(_numbers)}")
        self.client = make.a_client(self.user)
        self.dataset = make.a_dataset(f"/machine/t{next(_numbers)}", by=self.user)

    def teardown(self) -> None:
        database.set_rollback(True)
        self.block.__exit__(None, None, None)
        self.home.disable()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pick(self, data: st.DataObject, what: Any, label: str) -> str:
        # Ids are random: only the order in which transactions were started lets Hypothesis replay a choice.
        started = list(self.model.before)
        options = sorted(what, key=lambda one: (started.index(one) if one in started else -1, one))
        assume(options)
        return data.draw(st.sampled_from(options), label=label)

    def refused(self, act: Callable[[], object], code: str) -> None:
        """The act must be refused with this code and change nothing."""
        with pytest.raises(Conflict) as caught, database.atomic():
            act()
        assert caught.value.code == code

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def create_child(self, data: st.DataObject, name: str) -> None:
        parent = self.pick(data, self.model.branches, "parent")

        def act() -> object:
            return services.create_branch(dataset=self.dataset, name=name, parent=parent, by=make.who(self.user))

        if name in self.model.branches:
            self.refused(act, "branch_exists")
            return
        act()
        line = self.model.branches[parent]
        self.model.branches[name] = Line(parent=parent, latest=line.latest, seen=line.seen)

    @rule(name=st.sampled_from(NAMES))
    def create_root(self, name: str) -> None:
        assume(name not in self.model.branches)
        services.create_branch(dataset=self.dataset, name=name, by=make.who(self.user))
        self.model.branches[name] = Line(parent=None)

    @precondition(lambda self: self.model.committed)
    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def create_from_transaction(self, data: st.DataObject, name: str) -> None:
        assume(name not in self.model.branches)
        start = self.pick(data, self.model.committed, "transaction")
        services.create_branch(dataset=self.dataset, name=name, transaction=start, by=make.who(self.user))
        made_on = Transaction.objects.get(pk=start).dataset_branch
        parent = "master" if made_on is None else made_on.name
        self.model.branches[name] = Line(parent=parent, latest=start, seen=start)

    @rule(data=st.data())
    def start_transaction(self, data: st.DataObject) -> None:
        branch = self.pick(data, self.model.branches, "branch")

        def act() -> Transaction:
            return make.a_transaction(self.dataset, self.user, branch=branch)

        if self.model.is_blocked(branch):
            self.refused(act, "transaction_open")
            return
        self.model.start(act().pk, branch)

    @precondition(lambda self: self.model.open)
    @rule(data=st.data(), writes=st.integers(0, 2))
    def commit_transaction(self, data: st.DataObject, writes: int) -> None:
        name = self.pick(data, self.model.open, "transaction")
        row = Transaction.objects.select_related("dataset").get(pk=name)
        for _ in range(writes):
            make.fill(row, self.user)
        make.commit(row, self.user)
        self.model.commit(name)

    @precondition(lambda self: self.model.open)
    @rule(data=st.data(), writes=st.integers(0, 1))
    def abort_transaction(self, data: st.DataObject, writes: int) -> None:
        name = self.pick(data, self.model.open, "transaction")
        row = Transaction.objects.select_related("dataset").get(pk=name)
        for _ in range(writes):
            make.fill(row, self.user)
        services.abort_transaction(transaction=row, reason="model")
        self.model.abort(name)

    @rule(data=st.data(), name=st.sampled_from(NAMES), commits=st.booleans())
    def branch_off_an_open_transaction(self, data: st.DataObject, name: str, commits: bool) -> None:  # noqa: FBT001
        """The story that chance seldom tells: a child shares an open transaction, it closes, the parent moves on."""
        parent = self.pick(data, [one for one in self.model.branches if not self.model.is_blocked(one)], "parent")
        assume(name not in self.model.branches)
        row = make.a_transaction(self.dataset, self.user, branch=parent)
        self.model.start(row.pk, parent)
        services.create_branch(dataset=self.dataset, name=name, parent=parent, by=make.who(self.user))
        line = self.model.branches[parent]
        self.model.branches[name] = Line(parent=parent, latest=line.latest, seen=line.seen)
        self.refused(lambda: make.a_transaction(self.dataset, self.user, branch=name), "transaction_open")
        make.fill(row, self.user)
        if commits:
            make.commit(row, self.user)
            self.model.commit(row.pk)
        else:
            services.abort_transaction(transaction=row, reason="model")
            self.model.abort(row.pk)
        again = make.a_transaction(self.dataset, self.user, branch=parent)
        self.model.start(again.pk, parent)
        make.fill(again, self.user)
        make.commit(again, self.user)
        self.model.commit(again.pk)

    @precondition(lambda self: self.model.committed or self.model.aborted)
    @rule(data=st.data())
    def close_again(self, data: st.DataObject) -> None:
        name = self.pick(data, self.model.committed | self.model.aborted, "closed")
        row = Transaction.objects.select_related("dataset").get(pk=name)
        self.refused(lambda: services.abort_transaction(transaction=row, reason="again"), "transaction_closed")

    @rule(data=st.data())
    def write_as_a_client(self, data: st.DataObject) -> None:
        branch = self.pick(data, self.model.branches, "branch")
        client = self.client.on(None if branch == "master" else branch)
        before = set(self.dataset.transactions.values_list("pk", flat=True))
        status = make.try_write(client, self.dataset)
        new = set(self.dataset.transactions.values_list("pk", flat=True)) - before
        if self.model.is_blocked(branch):
            assert status == 409
            assert not new
            return
        assert status == 200
        (name,) = new
        self.model.start(name, branch)
        self.model.commit(name)

    @rule(data=st.data())
    def delete_branch(self, data: st.DataObject) -> None:
        branch = self.pick(data, self.model.branches, "branch")

        def act() -> None:
            services.delete_branch(dataset=self.dataset, name=branch, by=make.who(self.user))

        if branch == "master":
            self.refused(act, "master_stays")
        elif branch in self.model.open.values():
            self.refused(act, "transaction_open")
        else:
            act()
            self.model.delete(branch)

    @invariant()
    def database_agrees(self) -> None:
        if not hasattr(self, "dataset"):
            return
        rows = {row.name: row for row in self.dataset.branches.select_related("parent", "transaction__parent")}
        told = {
            name: (
                None if row.parent is None else row.parent.name,
                row.transaction_id,
                None if (seen := queries.committed_of(row)) is None else seen.pk,
            )
            for name, row in rows.items()
        }
        assert told == {name: (line.parent, line.latest, line.seen) for name, line in self.model.branches.items()}

    @invariant()
    def catalog_agrees(self) -> None:
        """What a client reads on each branch is the committed transaction it points to."""
        if not hasattr(self, "dataset"):
            return
        snapshots = dict(self.dataset.transactions.values_list("pk", "snapshot_id"))
        for name, line in self.model.branches.items():
            chain = queries.get_fallback_chain(path=self.dataset.path, branch=name)
            view = catalog.load_view(table=self.dataset.table, branch=name, chain=chain).metadata
            head = view["current-snapshot-id"]
            note(f"{name} reads {head}")
            assert (None if head in (None, -1) else head) == (None if line.seen is None else snapshots[line.seen])

    @invariant()
    def closed_transactions_leave_no_staging_branch(self) -> None:
        if not hasattr(self, "dataset"):
            return
        refs = catalog.get_metadata(table=self.dataset.table)["refs"]
        writing = set(self.dataset.transactions.filter(state="OPEN").values_list("staging_branch", flat=True))
        assert {name for name in refs if name.startswith("_job/")} <= writing

    @invariant()
    def transactions_are_kept_and_ordered(self) -> None:
        if not hasattr(self, "dataset"):
            return
        rows = list(self.dataset.transactions.order_by("dataset_branch_id", "number"))
        assert {row.pk for row in rows if row.state == "COMMITTED"} == self.model.committed
        assert {row.pk for row in rows if row.state == "ABORTED"} == self.model.aborted
        assert {row.pk for row in rows if row.state == "OPEN"} == set(self.model.open)
        for earlier, later in itertools.pairwise(rows):
            if later.dataset_branch_id is None or earlier.dataset_branch_id != later.dataset_branch_id:
                continue
            assert earlier.closed_at is not None
            assert earlier.started_at <= earlier.closed_at <= later.started_at


@pytest.mark.parametrize("examples", [15, pytest.param(1_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
def test_guarantees_of_dataset_branches(db: None, examples: int) -> None:
    run_state_machine_as_test(
        DatasetBranches,
        settings=hypothesis_settings(
            max_examples=examples,
            stateful_step_count=25,
            suppress_health_check=list(HealthCheck),
        ),
    )
