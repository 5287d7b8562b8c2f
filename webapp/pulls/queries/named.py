"""The named comparisons of a dataset of a pull request: which one is shown, and what the target did since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.accounts.rules.sight import EVERYTHING
from webapp.comparisons.diffs import overlap
from webapp.comparisons.models import Comparison
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.queries.counts import RowCounts, count_rows, judge_comparison
from webapp.comparisons.rules.states import NOT_COMPARED, ComparisonState
from webapp.core.errors import BadRequest
from webapp.datasets.permissions import see_rows
from webapp.pulls.models import NamedComparison
from webapp.pulls.rules import states
from webapp.pulls.rules.comparisons import explain_absence

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from webapp.accounts.rules.sight import RowSight
    from webapp.core.principals import Principal
    from webapp.datasets.models import Transaction
    from webapp.pulls.models import PullDataset

NAMES = [name for name, _sentence in states.NAMED_CHOICES]


@dataclass(frozen=True)
class Shown:
    """One of the comparisons of a dataset."""

    name: str
    before: Transaction | None
    after: Transaction | None
    comparison: Comparison | None
    reason: str
    """Why there is none, where there is none."""
    note: str = ""
    """What else than the branch's own work it shows."""

    @property
    def ends(self) -> tuple[str, str]:
        """The transactions of both sides; empty where there is none."""
        return self.before.pk if self.before else "", self.after.pk if self.after else ""

    @property
    def counts(self) -> RowCounts:
        """How far it is and what it counted."""
        return count_rows(self.comparison, reason=self.reason)

    @property
    def schema_status(self) -> str:
        """What became of the schema."""
        return str(self.comparison.schema.get("status", NOT_COMPARED)) if self.comparison else NOT_COMPARED

    @property
    def is_ready(self) -> bool:
        """Whether its rows are stored."""
        return self.comparison is not None and self.comparison.state == ComparisonState.READY

    @property
    def is_equal(self) -> bool:
        """Whether both ends are known to have the same rows and schema."""
        return bool(judge_comparison(self.comparison)["state"] == "equal")

    @property
    def folder(self) -> Path | None:
        """Where its rows are stored; None before they are."""
        return artifact_folder(self.comparison) if self.comparison is not None and self.is_ready else None


@dataclass(frozen=True, kw_only=True)
class TargetSince(Shown):
    """What the target did to a dataset since the branch left it."""

    both: int | None
    """Rows that both sides changed; None where nobody can tell."""


@dataclass(frozen=True, kw_only=True)
class ShownDataset(Shown):
    """A dataset of a pull request by one of its comparisons."""

    row: PullDataset
    since: TargetSince | None
    """None where the target has not moved."""

    @property
    def lands_reason(self) -> str | None:
        """Why merging does not bring it to the target; None where it does."""
        return None if self.row.lands else self.row.lands_reason


def show_dataset(row: PullDataset, name: str = "") -> ShownDataset:
    """Return a dataset by the comparison of this name, with what the target did since."""
    shown = find_shown(row, name)
    since = find_since(row)
    moved = TargetSince(**vars(since), both=count_both(row, shown)) if since else None
    return ShownDataset(**vars(shown), row=row, since=moved)


def find_shown(row: PullDataset, name: str = "") -> Shown:
    """Return the comparison of this name; the dataset's default one without a name.

    Raises:
        BadRequest: there is no such name.

    """
    name = name or row.compared
    if name not in NAMES:
        message = f"compared is one of {', '.join(NAMES)}, not {name!r}."
        raise BadRequest(message, errors={"compared": [message]})
    note = row.base_note if name == states.THIS_BRANCH else ""
    if name == row.compared:
        return Shown(name, row.before, row.after, row.comparison, row.reason, note)
    named = _find(row, name)
    if named is None:
        reason = row.reason or explain_absence(
            name, source=row.pull.source, target=row.pull.target, is_revert=row.pull.reverts_id is not None
        )
        return Shown(name, None, row.after, None, reason)
    return Shown(name, named.before, named.after, named.comparison, "", note)


def _find(row: PullDataset, name: str) -> NamedComparison | None:
    return next((named for named in row.named if named.name == name), None)


def see_shown(principal: Principal, row: PullDataset, shown: Shown) -> RowSight:
    """Return what a reader may see of the rows of one of the comparisons."""
    if row.dataset is None:  # then there are no rows, either
        return EVERYTHING
    return see_rows(principal, row.dataset, row.pull.source, row.pull.target, shown.before, shown.after)


def find_first(row: PullDataset, *, is_open: bool) -> str:
    """Return the name that a page shows first: what came since the reader's last review, or the dataset's default."""
    since = find_shown(row, states.SINCE_REVIEW)
    return states.SINCE_REVIEW if is_open and since.comparison is not None and not since.is_equal else row.compared


def find_since(row: PullDataset) -> Shown | None:
    """Return the comparison that shows what the target did since the branch left it; None where it did nothing."""
    since = find_shown(row, states.TARGET_SINCE)
    return since if since.comparison is not None else None


def count_both(row: PullDataset, shown: Shown) -> int | None:
    """Return how many of the shown rows both sides have changed; None where nobody can tell, such as without a key."""
    others = _list_others(row, shown)
    return overlap.count_common(shown.folder, others) if shown.folder and others else None


def find_both(row: PullDataset, shown: Shown, numbers: Iterable[int]) -> set[int]:
    """Return which of the shown rows, by their numbers, both sides have changed."""
    others = _list_others(row, shown)
    return overlap.find_common(shown.folder, others, numbers) if shown.folder and others else set()


def _list_others(row: PullDataset, shown: Shown) -> list[Path]:
    """Return the stored rows in all of which a shown row is that both sides have changed; none before they are stored.

    Against the target's newest data the changes of both sides are mixed, so each of the two has to have the row.
    """
    own, since = find_shown(row), find_since(row)
    compared: dict[str, list[Shown | None]] = {states.TARGET_SINCE: [own], states.TARGET_NOW: [own, since]}
    others = compared.get(shown.name, [since])
    folders = [other.folder for other in others if other is not None and other.folder is not None]
    return folders if len(folders) == len(others) else []
