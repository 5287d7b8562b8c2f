"""Two ends of a dataset's history: what an address means by them, what lies between, and how it is compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from webapp.accounts.permissions import find_folder_owner
from webapp.accounts.rules.sight import EVERYTHING
from webapp.builds.queries import chains
from webapp.catalog import queries as catalog
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules import states
from webapp.comparisons.rules.changelogs import check_seen
from webapp.comparisons.rules.dataset_rules import PIPELINE_FILE, ComparisonRules, read_dataset_rules
from webapp.comparisons.rules.states import ROW_CHANGES, ComparisonState
from webapp.core.errors import InvalidInput, NotFound
from webapp.core.names import MASTER, check_spelling
from webapp.datasets import queries as datasets
from webapp.datasets.models import Transaction
from webapp.datasets.permissions import see_rows
from webapp.datasets.rules.transactions import TransactionState
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webapp.accounts.rules.sight import RowSight
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset
    from webapp.repositories.models import Repository

SHORT_ID = 7


@dataclass(frozen=True)
class ComparedEnd:
    """One end of a comparison."""

    asked: str
    """The branch or transaction as the address names it."""
    branch: str
    transaction: Transaction | None
    """None for a branch on which nothing is committed: it reads as the empty table."""
    is_branch: bool

    @property
    def name(self) -> str:
        """What people call it."""
        return self.branch if self.is_branch or self.transaction is None else self.transaction.pk[:SHORT_ID]


@dataclass(frozen=True)
class Between:
    """What separates two ends: the transactions of each since the last one that both have."""

    base: Transaction | None
    """The newest transaction in the history of both; None where they have none in common."""
    came: tuple[Transaction, ...]
    """In the history of the second end only, newest first."""
    left: tuple[Transaction, ...]
    """In the history of the first end only, newest first."""


@dataclass(frozen=True)
class Changed:
    """What one transaction changed in rows."""

    is_exact: bool
    """From a stored row diff; else rows written and removed as the writer counted them, rewritten ones included."""
    inserted: int
    deleted: int
    updated: int | None


@dataclass(frozen=True)
class ComparedEnds:
    """Two ends of a dataset and their row diff."""

    dataset: Dataset
    before: ComparedEnd
    after: ComparedEnd
    rules: ComparisonRules
    comparison: Comparison | None
    sight: RowSight
    """What the reader may see of its rows."""
    reason: str = ""
    """Why it is not compared, where it is not."""

    @property
    def between(self) -> Between:
        """What lies between the two ends."""
        return list_between(self.dataset, self.before.transaction, self.after.transaction)


def find_end(dataset: Dataset, text: str, *, field: str) -> ComparedEnd:
    """Return the branch of this name, else the committed transaction of this id.

    Raises:
        InvalidInput: nothing is asked for.
        NotFound: the dataset has neither.
        Conflict: the transaction is open or aborted, or its files are gone.

    """
    if not text:
        message = f"{field} is missing: give a branch or a transaction of {dataset.path}."
        raise InvalidInput(message, errors={field: ["A branch or a transaction."]})
    branch = datasets.find_branch(dataset, text)
    if branch is not None:
        _, shown = datasets.parse_view(dataset, branch=branch.name)
        return ComparedEnd(text, branch.name, _checked(dataset, shown), is_branch=True)
    try:
        name, transaction = datasets.parse_view(dataset, transaction=text)
    except NotFound:
        check_spelling(text, datasets.list_parents(dataset))
        message = f"{dataset.path} has no branch and no transaction {text}."
        raise NotFound(message, errors={field: [message]}) from None
    return ComparedEnd(text, name, _checked(dataset, transaction), is_branch=False)


def _checked(dataset: Dataset, transaction: Transaction | None) -> Transaction | None:
    if transaction is not None:
        datasets.check_not_expired(dataset, transaction, catalog.get_metadata(table=dataset.table))
    return transaction


def suggest_ends(dataset: Dataset, branch: str) -> tuple[str, str]:
    """Return what to compare where nothing is asked for: a branch with its parent, a root with its last step."""
    pointer = datasets.find_branch(dataset, branch) or datasets.find_branch(dataset, MASTER)
    if pointer is None:
        return "", ""
    if pointer.parent is not None:
        return pointer.parent.name, pointer.name
    committed = datasets.committed_of(pointer)
    return (committed.parent_id or "" if committed else ""), pointer.name


def read_rules(dataset: Dataset, *, branch: str, sight: RowSight, keys: Sequence[str] | None = None) -> ComparisonRules:
    """Return how rows are compared: by pipeline.toml of the repository that owns the dataset.

    The rules are those of the branch, else those of the default branch. Every writer can state rules on a branch, so
    rules that name what the reader may not see count only on the default branch.

    Args:
        dataset: whose rows are compared.
        branch: the branch whose rules count.
        sight: what the reader may see of the rows.
        keys: columns that take the place of the key.

    """
    repository = repositories.find_repository(find_folder_owner(dataset.path))
    rules = None
    if repository is not None and branch != repository.default_branch:
        rules = _rules_on(repository, dataset.path, branch)
    if repository is not None and (rules is None or rules.list_named(sorted(sight.hidden))):
        rules = _rules_on(repository, dataset.path, repository.default_branch)
    rules = rules or ComparisonRules()
    return rules if keys is None else replace(rules, key=tuple(keys))


def list_keys(*, dataset: Dataset, branch: str) -> tuple[str, ...]:
    """Return the columns by which rows of a dataset are told apart on a branch; none where nobody has said so."""
    return read_rules(dataset, branch=branch, sight=EVERYTHING).key


def _rules_on(repository: Repository, path: str, branch: str) -> ComparisonRules | None:
    head = chains.find_head_sha(repository=repository, branch=branch)
    if not head or repositories.find_kind(repository, head, PIPELINE_FILE) is None:
        return None
    text = repositories.read_file(repository, head, PIPELINE_FILE).decode("utf-8", "replace")
    return read_dataset_rules(text).get(path, ComparisonRules())


def see_ends(
    principal: Principal, dataset: Dataset, ends: Sequence[ComparedEnd], *, keys: Sequence[str] | None
) -> RowSight:
    """Return what a reader may see of the rows of some ends, whose rows they want to match by these columns.

    Raises:
        InvalidInput: one of the columns is hidden: which rows match would say what is in it.

    """
    sight = see_rows(principal, dataset, *(end.branch for end in ends), *(end.transaction for end in ends))
    check_seen(keys or (), sight, field="keys")
    return sight


def list_between(dataset: Dataset, start: Transaction | None, end: Transaction | None) -> Between:
    """Return the transactions that lie between two ends."""
    rows = {row.pk: row for row in dataset.transactions.filter(state=TransactionState.COMMITTED)}
    lines = [_line(rows, start), _line(rows, end)]
    shared = {row.pk for row in lines[0]} & {row.pk for row in lines[1]}
    own = [tuple(row for row in line if row.pk not in shared) for line in lines]
    base = next((row for row in lines[1] if row.pk in shared), None)
    return Between(base=base, left=own[0], came=own[1])


def _line(rows: dict[str, Transaction], head: Transaction | None) -> list[Transaction]:
    line: list[Transaction] = []
    current = rows.get(head.pk) if head is not None else None
    while current is not None:
        line.append(current)
        current = rows.get(current.parent_id or "")
    return line


def list_changes(transactions: Iterable[Transaction]) -> dict[str, Changed]:
    """Return what each committed transaction changed: exactly where its row diff is stored, else as its writer counted."""
    committed = {row.pk: row for row in transactions if row.state == TransactionState.COMMITTED}
    changes = {
        pk: Changed(False, int(row.summary.get("added") or 0), int(row.summary.get("deleted") or 0), None)
        for pk, row in committed.items()
    }
    stored = Comparison.objects.filter(kind=states.ROWS, after__in=list(committed), state=ComparisonState.READY)
    rows = stored.order_by("finished_at").values_list("after_id", "before_id", "rules", "summary")
    # With a key a changed row is one; and what was compared of chosen rows only says nothing of the rest.
    for after_id, before_id, rules, summary in sorted(rows, key=lambda row: row[3].get("mode") == "identifier"):
        if after_id is not None and before_id == committed[after_id].parent_id and not rules.get("row_filter"):
            changes[after_id] = _read_counts(summary)
    return changes


def _read_counts(summary: dict[str, int]) -> Changed:
    counts = (int(summary.get(name) or 0) for name in ROW_CHANGES)
    return Changed(True, *counts)
