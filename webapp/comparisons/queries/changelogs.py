"""Which range of a dataset's history a changelog is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.catalog import queries as catalog
from webapp.comparisons.rules import changelogs as rules
from webapp.core.errors import InvalidInput, NotFound
from webapp.datasets import queries as datasets
from webapp.datasets.permissions import see_rows
from webapp.datasets.queries.preview import current_schema, read_metadata
from webapp.datasets.rules.transactions import TransactionState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webapp.accounts.rules.sight import RowSight
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction

EARLIEST = "earliest"
IMAGES = ("first", "latest")


@dataclass(frozen=True)
class SnapshotRange:
    """The changes after one snapshot, up to and with another."""

    branch: str
    end: Transaction | None
    """Whose schema the changelog has; None for a branch on which nothing is committed."""
    start_snapshot: int | None
    """None: from nothing."""
    end_snapshot: int | None
    keys: tuple[str, ...] | None
    """None for net changes."""
    images: str
    sight: RowSight
    """What the reader may see of its rows."""

    def as_json(self) -> dict[str, Any]:
        """Return what is asked as it is stored: snapshot ids as text, since they have 64 bits."""
        return {
            "start": None if self.start_snapshot is None else str(self.start_snapshot),
            "end": None if self.end_snapshot is None else str(self.end_snapshot),
            "keys": None if self.keys is None else list(self.keys),
            "images": self.images,
        }


def find_range(
    principal: Principal,
    dataset: Dataset,
    *,
    branch: str,
    start: str,
    end: str,
    keys: Sequence[str] | None,
    images: str,
) -> SnapshotRange:
    """Read what an address asks for, and refuse what has no answer before any job starts.

    `start` and `end` are transactions or Iceberg snapshot ids; without a start, or with `earliest`, from nothing.

    Raises:
        NotFound: there is no such transaction or snapshot.
        Conflict: an end has expired, is not committed, or the start is not an ancestor of the end.
        InvalidInput: an identifier column does not exist, or is hidden from the reader.

    """
    if images not in IMAGES:
        message = f"images is first or latest, not {images!r}."
        raise InvalidInput(message, errors={"images": [message]})
    resolved, head = datasets.parse_view(dataset, branch=branch or None)
    snapshots = catalog.get_metadata(table=dataset.table).get("snapshots") or []
    until, until_snapshot = _find_point(dataset, end, snapshots) if end else (head, head.snapshot_id if head else None)
    first, since = (None, None) if start in ("", EARLIEST) else _find_point(dataset, start, snapshots)
    rules.check_range(snapshots, start=since, end=until_snapshot)
    shown = until or head
    metadata = read_metadata(dataset, branch=resolved, transaction=shown)
    rules.check_keys(keys, current_schema(metadata)["fields"])
    sight = see_rows(principal, dataset, branch or resolved, resolved, shown, first)
    rules.check_seen(keys or (), sight, field="keys")
    return SnapshotRange(resolved, shown, since, until_snapshot, None if keys is None else tuple(keys), images, sight)


def _find_point(
    dataset: Dataset, text: str, snapshots: Sequence[Mapping[str, Any]]
) -> tuple[Transaction | None, int | None]:
    """Return the transaction and the snapshot that a text names: a transaction's id first, then a snapshot's."""
    try:
        transaction = datasets.parse_view(dataset, transaction=text)[1]
    except NotFound:
        transaction = None
    if transaction is not None:
        return transaction, transaction.snapshot_id
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        message = f"{dataset.path} has no transaction {text}, and it is no snapshot id."
        raise NotFound(message)
    number = int(text)
    committed = (
        dataset.transactions.filter(snapshot_id=number, state=TransactionState.COMMITTED).order_by("started_at").first()
    )
    if committed is None and all(snapshot["snapshot-id"] != number for snapshot in snapshots):
        message = f"{dataset.path} has no snapshot {text}; it may have expired."
        raise NotFound(message, code="expired")
    return committed, number
