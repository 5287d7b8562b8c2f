"""The tabs Data and Schema: the datasets of a pull request, one of them in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.accounts import permissions
from webapp.comparisons.diffs.schema import ColumnDiff, SchemaDiff, diff_artifact
from webapp.comparisons.pages import charts
from webapp.comparisons.pages.progress import ComparisonProgress, describe_progress, describe_reached
from webapp.comparisons.pages.rows import DiffPlace, Marks, RowsView, read_first_rows, read_rows
from webapp.comparisons.pages.trends import TrendView, read_trend_view
from webapp.comparisons.queries.artifacts import first_rows_folder
from webapp.comparisons.rules.dataset_rules import rules_from_json
from webapp.comparisons.rules.states import BREAKING, CHANGED, NOT_COMPARED, ComparisonState
from webapp.core.errors import NotFound
from webapp.datasets.queries import latest_committed
from webapp.pulls.pages.head import Loaded, PullHead, frame, load, load_all_of, read_head
from webapp.pulls.pages.moved import judge_part, list_drift_of
from webapp.pulls.pages.references import link_references, texts_of
from webapp.pulls.pages.three_ways import ThreeWaysView, read_three_ways_view
from webapp.pulls.queries import named
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.looked import find_last_review
from webapp.pulls.queries.pending import read_pending
from webapp.pulls.queries.remarks import (
    ColumnTalk,
    RowTalk,
    Viewing,
    content_of_dataset,
    list_column_talk,
    place_row_talk,
    read_viewed,
)
from webapp.pulls.queries.unseen import UnseenData
from webapp.pulls.rules import states
from webapp.pulls.rules.comparisons import name_comparison
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from datetime import datetime

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullDataset, PullRequest


@dataclass(frozen=True)
class DatasetItem:
    """A dataset in the list beside the diff."""

    path: str
    url: str
    change: str
    icon: str
    tone: str
    counts: tuple[int, int, int] | None
    note: str
    is_current: bool
    schema_note: str
    is_viewed: bool
    is_newer: bool
    """Whether it has other rows than the reader's last review saw."""
    lands_note: str
    verdict: str
    """What reviewers say of its rows as they are: rejected where anybody does, else accepted where somebody does."""


@dataclass(frozen=True)
class ShownVerdict:
    """What a reviewer says of a dataset."""

    reviewer: str
    tone: str
    word: str
    reason: str
    given_at: datetime


@dataclass(frozen=True)
class Verdicts:
    """What reviewers say of a dataset, and what its reader may say."""

    given: list[ShownVerdict]
    own: str
    """The reader's own, which holds; empty where there is none."""
    may_accept: bool
    may_reject: bool
    transaction: str
    """Of the branch, that is shown."""


@dataclass(frozen=True)
class ItemGroup:
    """Datasets changed in the same way."""

    name: str
    items: list[DatasetItem]


@dataclass(frozen=True)
class NamedChoice:
    """One of the comparisons, as a link."""

    name: str
    word: str
    url: str
    is_current: bool


@dataclass(frozen=True)
class SinceView:
    """What the target has done to a dataset since the branch left it."""

    counts: tuple[int, int, int] | None
    schema: str
    both: int | None
    """How many of the shown rows it has changed, too; None where nobody can tell."""
    url: str
    is_shown: bool
    """Whether that is what the page shows."""
    part: str
    """Whether the shown comparison has it too: no, some, backwards, or unbuilt (backwards until the branch is built)."""


@dataclass(frozen=True)
class NewerRows:
    """A branch with other rows than those that were compared."""

    branch: str
    transaction: str


@dataclass(frozen=True)
class MovedRows:
    """What was compared on a page that is still open, and what there is now in place of it."""

    before_branch: str
    before_id: str
    after_branch: str
    after_id: str
    moves: list[NewerRows]
    url: str
    """Where what there is now is compared."""


@dataclass(frozen=True)
class PullDatasetPart:
    """The chosen dataset in full."""

    path: str
    dataset_id: int | None
    url: str
    change: str
    change_word: str
    state: str
    reason: str
    error: str
    progress: ComparisonProgress
    reached: ComparisonProgress
    """Where a failed comparison was stopped."""
    may_cancel: bool
    is_moving: bool
    is_unmade: bool
    """Whether the branch has not built it."""
    before_id: str
    after_id: str
    before_branch: str
    before_note: str
    after_branch: str
    compared: str
    compared_word: str
    compared_note: str
    """What else than the branch's own work the comparison shows."""
    choices: list[NamedChoice]
    since: SinceView | None
    current: bool
    schema: SchemaDiff | None
    schema_url: str
    rules: list[str]
    lands_reason: str
    """Why merging does not bring these rows to the target; empty where it does."""
    changed_files: list[str]
    """Files that differ, if its JobSpec is the same and its jobs use them."""
    rule_changes: list[str]
    """How the branch changes them."""
    rows: RowsView | None
    first_rows: RowsView | None
    """While the comparison runs."""
    statistics: charts.StatisticsTable | None
    trend: TrendView | None
    """Where that is what is shown: the dataset over its last transactions."""
    three_ways: ThreeWaysView | None
    """Where that is what is shown: the rows that both sides have changed."""
    retry_url: str
    cancel_url: str
    show: str
    viewing: Viewing
    verdicts: Verdicts
    talk: RowTalk
    target: str
    drift: list[str]
    """Inputs that the two sides have read in different versions, directly or through what the branch changes."""
    reviewed_at: datetime | None
    """When the reader gave their last review; None where that saw no rows of the dataset."""
    is_as_reviewed: bool
    """Whether it saw those of the branch now, or equal ones."""
    has_code_effect: bool
    build_scope: str
    """What must be built for the effect of the code."""
    moved_url: str
    """What tells the page that its rows are no longer the newest; empty where they stay as they are."""


@dataclass(frozen=True)
class DataPage:
    """Context of the Data tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    groups: list[ItemGroup]
    total: int
    viewed: int
    """How many datasets the reader has ticked."""
    unseen: UnseenData
    """Those that the reader may not see."""
    view: PullDatasetPart | None
    references: Mapping[str, str]
    """Addresses of what comments name."""
    pull_url: str
    build_url: str


@dataclass(frozen=True)
class DiffRowsPart:
    """The rows of one dataset, and what was said of them."""

    path: str
    compared: str
    before_id: str
    after_id: str
    rows: RowsView
    talk: RowTalk


@dataclass(frozen=True)
class CommentedPull:
    """What a form for comments says of its pull request."""

    repository: str
    number: int
    source: str
    is_open: bool
    pending: int
    """How many comments of the reader's own review are not submitted."""


@dataclass(frozen=True)
class RowsInPlace:
    """Context of rows that take the place of others: a filter, a page or other columns of them."""

    head: CommentedPull
    view: DiffRowsPart
    references: Mapping[str, str]
    """Addresses of what comments name."""


@dataclass(frozen=True)
class SchemaDiffPart:
    """The schema diff of one dataset."""

    path: str
    data_url: str
    change: str
    compared_word: str
    compared_note: str
    """What else than the branch's own work the comparison shows."""
    diff: SchemaDiff | None
    shown: list[ColumnDiff]
    same: list[ColumnDiff]
    state: ComparisonState | None
    reason: str
    """Why it has no diff: nothing to compare, or what failed."""
    compared: str
    before_id: str
    after_id: str
    is_since_review: bool
    """Whether it says only what came since the reader's last review."""
    talk: ColumnTalk

    @property
    def is_moving(self) -> bool:
        """Whether its diff comes by itself."""
        return self.diff is None and self.state in (ComparisonState.QUEUED, ComparisonState.RUNNING)

    @property
    def is_failed(self) -> bool:
        """Whether its rows could not be compared, and nothing is known of its schema."""
        return self.diff is None and self.state == ComparisonState.FAILED

    @property
    def changes_caption(self) -> str:
        """What a screen reader calls the table of changes."""
        return f"Schema changes of {self.path}"

    @property
    def same_caption(self) -> str:
        """What it calls the table of the rest."""
        return f"Unchanged columns of {self.path}"


@dataclass(frozen=True)
class SchemaPage:
    """Context of the Schema tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    choices: list[NamedChoice]
    unseen: UnseenData
    """Those that the reader may not see."""
    views: list[SchemaDiffPart]
    unchanged: list[SchemaDiffPart]
    missing: list[SchemaDiffPart]
    is_since_review: bool
    """Whether that is so of one of them."""
    references: Mapping[str, str]
    """Addresses of what comments name."""

    @property
    def is_moving(self) -> bool:
        """Whether a diff comes by itself."""
        return any(view.is_moving for view in self.missing)

    @property
    def is_empty(self) -> bool:
        """Whether there is no dataset that the reader may see."""
        return not (self.views or self.unchanged or self.missing)


CHANGE_WORDS = {
    states.MODIFIED: "changed",
    states.ADDED: "new",
    states.REMOVED: "removed",
    states.AFFECTED: "downstream only",
    states.REFRESHED: "only rebuilt here",
}


def read_data(principal: Principal, repository: str, number: int, *, parameters: Mapping[str, Any]) -> DataPage:
    """Return what the Data tab shows."""
    loaded = load(principal, repository, number)
    row = _choose(loaded, str(parameters.get("dataset", "")))
    marks = read_viewed(loaded.pull, {dataset.path: content_of_dataset(dataset) for dataset in loaded.rows}, principal)
    view = _view_dataset(loaded, row, parameters, principal, marks[row.path]) if row else None
    return DataPage(
        **frame(repository),
        head=read_head(principal, loaded),
        tab="Data",
        groups=_group_items(loaded, row, marks),
        total=len(marks),
        viewed=sum(mark.is_viewed for mark in marks.values()),
        unseen=loaded.unseen,
        view=view,
        references=link_references(
            principal, loaded.pull.repository, texts_of(view.talk.threads if view else ()), loaded.pull
        ),
        pull_url=loaded.url,
        build_url=reverse("pull-build", args=[repository, number]),
    )


def read_data_rows(
    principal: Principal, repository: str, number: int, *, parameters: Mapping[str, Any]
) -> RowsInPlace | None:
    """Return what takes the place of the rows that the Data tab shows; None where it shows no rows."""
    pull = queries.get_pull(principal, repository, number)
    path = str(parameters.get("dataset", ""))
    row = queries.get_dataset_row(principal, pull, path) if path else _choose(load_all_of(principal, pull), path)
    shown = _find_shown(row, parameters) if row else None
    if row is None or shown is None or shown.folder is None or _choose_view(parameters) != "rows":
        return None
    rows = read_rows(
        shown.folder,
        named.see_shown(principal, row, shown),
        parameters=parameters,
        place=_place_rows(row, shown),
    )
    talk = _place_talk(row, rows, principal)
    return RowsInPlace(
        head=CommentedPull(
            repository, number, pull.source, pull.state == PullState.OPEN, len(read_pending(principal, pull))
        ),
        view=DiffRowsPart(row.path, shown.name, *shown.ends, rows, talk),
        references=link_references(principal, pull.repository, texts_of(talk.threads), pull),
    )


def read_schema(principal: Principal, repository: str, number: int, *, compared: str = "") -> SchemaPage:
    """Return what the Schema tab shows: of each dataset what its Data tab shows first, or the comparison of a name."""
    loaded = load(principal, repository, number)
    views = _view_schemas(loaded, compared, principal)
    return SchemaPage(
        **frame(repository),
        head=read_head(principal, loaded),
        tab="Schema",
        choices=_list_schema_choices(loaded, compared),
        unseen=loaded.unseen,
        views=[view for view in views if view.diff is not None and view.diff.count],
        unchanged=[view for view in views if view.diff is not None and not view.diff.count],
        missing=[view for view in views if view.diff is None],
        is_since_review=any(view.is_since_review for view in views),
        references=link_references(
            principal,
            loaded.pull.repository,
            [text for view in views for text in texts_of(view.talk.threads)],
            loaded.pull,
        ),
    )


def _view_schemas(loaded: Loaded, compared: str, principal: Principal) -> list[SchemaDiffPart]:
    comparisons = {row.path: named.find_shown(row, compared or _find_first(row)) for row in loaded.rows}
    diffs = {
        path: diff_artifact(shown.comparison.schema) if shown.comparison and shown.comparison.schema else None
        for path, shown in comparisons.items()
    }
    columns = {path: {column.path for column in diff.columns} for path, diff in diffs.items() if diff and diff.count}
    talk = list_column_talk(loaded.pull, columns, loaded.rows, principal)
    return [_view_schema(loaded, row, comparisons[row.path], diffs[row.path], talk[row.path]) for row in loaded.rows]


def _view_schema(
    loaded: Loaded, row: PullDataset, shown: named.Shown, diff: SchemaDiff | None, talk: ColumnTalk
) -> SchemaDiffPart:
    columns = diff.columns if diff else ()
    return SchemaDiffPart(
        path=row.path,
        data_url=loaded.find_data_url(row.path),
        change=CHANGE_WORDS.get(row.change, row.change),
        compared_word=_name_comparison(loaded, shown.name),
        compared_note=shown.note,
        diff=diff,
        shown=[column for column in columns if column.changes],
        same=[column for column in columns if not column.changes],
        state=shown.comparison.state if shown.comparison else None,
        reason=shown.reason or (shown.comparison.error if shown.comparison else "Not compared yet."),
        compared=shown.name,
        before_id=shown.ends[0],
        after_id=shown.ends[1],
        is_since_review=shown.name == states.SINCE_REVIEW,
        talk=talk,
    )


def _list_schema_choices(loaded: Loaded, compared: str) -> list[NamedChoice]:
    """Return what all datasets can be compared with; nothing to choose where that is the same."""
    names = {choice.name for row in loaded.rows for choice in _list_choices(loaded, row, named.find_shown(row))}
    choices = [NamedChoice("", "as by default", f"{loaded.url}/schema", not compared)]
    choices += [
        NamedChoice(name, _name_comparison(loaded, name), f"{loaded.url}/schema?compared={name}", name == compared)
        for name in named.NAMES
        if name in names
    ]
    return choices if names else []


def _list_choices(loaded: Loaded, row: PullDataset, shown: named.Shown) -> list[NamedChoice]:
    """Return the comparisons of a dataset; nothing to choose where all of them have the same ends."""
    comparisons = [named.find_shown(row, name) for name in named.NAMES]
    existing = [choice for choice in comparisons if choice.comparison is not None]
    if len({choice.comparison for choice in existing} | {shown.comparison}) == 1:
        return []
    return [
        NamedChoice(
            choice.name,
            _name_comparison(loaded, choice.name),
            _data_url(loaded, row, choice.name),
            choice.name == shown.name,
        )
        for choice in existing
    ]


def _name_comparison(loaded: Loaded, name: str) -> str:
    pull = loaded.pull
    reverted = pull.reverts.number if pull.reverts else None
    return name_comparison(name, target=pull.target, is_open=pull.state == PullState.OPEN, reverted=reverted)


def _find_first(row: PullDataset) -> str:
    return named.find_first(row, is_open=row.pull.state == PullState.OPEN)


def _data_url(loaded: Loaded, row: PullDataset, name: str = "") -> str:
    query = {"dataset": row.path, **({"compared": name} if name and name != _find_first(row) else {})}
    return f"{loaded.url}/data?{urlencode(query, safe='/')}"


# ---- the list of datasets ------------------------------------------------------------------------------------------


def _choose(loaded: Loaded, path: str) -> PullDataset | None:
    """Return the dataset that the address names; else the first with rows to show."""
    if path:
        for row in loaded.rows:
            if row.path == path:
                return row
        message = f"Pull request #{loaded.pull.number} does not touch {path}."
        raise NotFound(message)
    with_rows = [row for row in loaded.rows if row.comparison is not None]
    return next(iter(with_rows or loaded.rows), None)


def _group_items(loaded: Loaded, chosen: PullDataset | None, marks: Mapping[str, Viewing]) -> list[ItemGroup]:
    groups = []
    for name, changes in states.CHANGE_GROUPS:
        items = [
            _item(loaded, row, is_current=row is chosen, is_viewed=marks[row.path].is_viewed)
            for row in loaded.rows
            if row.change in changes
        ]
        if items:
            groups.append(ItemGroup(name, items))
    return groups


_ICONS = {
    states.ADDED: ("diff-added", "okc"),
    states.REMOVED: ("diff-removed", "badc"),
    states.MODIFIED: ("diff-modified", "warnc"),
    states.AFFECTED: ("git-compare", ""),
    states.REFRESHED: ("sync", ""),
}


_SCHEMA_NOTES = {BREAKING: "schema breaks", CHANGED: "schema changed"}


def _item(loaded: Loaded, row: PullDataset, *, is_current: bool, is_viewed: bool) -> DatasetItem:
    icon, tone = _ICONS.get(row.change, ("table", ""))
    comparison = row.comparison
    counts = None
    note = "not compared"
    if comparison is not None:
        note = {
            ComparisonState.QUEUED: "queued",
            ComparisonState.RUNNING: "comparing",
            ComparisonState.FAILED: "comparison failed",
        }.get(comparison.state, "")
        counts = _read_counts(named.find_shown(row))
    schema = _SCHEMA_NOTES.get(row.schema_status, "")
    lands_note = "" if row.lands or row.change == states.REFRESHED else "does not land"
    return DatasetItem(
        row.path,
        _data_url(loaded, row),
        row.change,
        icon,
        tone,
        counts,
        note,
        is_current,
        schema,
        is_viewed,
        _find_first(row) == states.SINCE_REVIEW and named.find_shown(row, states.SINCE_REVIEW).is_ready,
        lands_note,
        _sum_verdicts(loaded, row),
    )


def _sum_verdicts(loaded: Loaded, row: PullDataset) -> str:
    verdicts = {
        verdict.verdict for verdict in loaded.facts.dataset_verdicts if verdict.path == row.path and not verdict.void
    }
    return states.REJECTED if states.REJECTED in verdicts else states.ACCEPTED if verdicts else ""


# ---- one dataset ---------------------------------------------------------------------------------------------------


def _view_dataset(
    loaded: Loaded, row: PullDataset, parameters: Mapping[str, Any], principal: Principal, viewing: Viewing
) -> PullDatasetPart:
    pull = loaded.pull
    shown = _find_shown(row, parameters)
    comparison, folder = shown.comparison, shown.folder
    sight = named.see_shown(principal, row, shown)
    show = _choose_view(parameters)
    state = comparison.state if comparison else NOT_COMPARED
    place = _place_rows(row, shown)
    url = _data_url(loaded, row, shown.name)
    before_branch, after_branch = _name_branches(pull, shown.name)
    rows = read_rows(folder, sight, parameters=parameters, place=place) if folder and show == "rows" else None
    is_unmade = row.after_id is None
    review = find_last_review(principal, pull) if pull.state == PullState.OPEN else None
    seen = review.seen.get("transactions", {}).get(row.path) if review else None
    return PullDatasetPart(
        path=row.path,
        dataset_id=row.dataset_id,
        url=url,
        change=row.change,
        change_word=CHANGE_WORDS.get(row.change, row.change),
        state=state,
        reason=shown.reason,
        error=comparison.error if comparison else "",
        progress=describe_progress(comparison),
        reached=describe_reached(comparison),
        may_cancel=permissions.can_repository(principal, pull.repository.name, "write"),
        is_moving=state in (ComparisonState.QUEUED, ComparisonState.RUNNING),
        is_unmade=is_unmade,
        before_id=shown.ends[0],
        after_id=shown.ends[1],
        before_branch=before_branch,
        before_note=_BEFORE_NOTES[shown.name],
        after_branch=after_branch,
        compared=shown.name,
        compared_word=_name_comparison(loaded, shown.name),
        compared_note=shown.note,
        choices=_list_choices(loaded, row, shown),
        since=_describe_since(loaded, row, shown),
        current=row.current,
        schema=diff_artifact(comparison.schema) if comparison and comparison.schema else None,
        schema_url=_schema_url(loaded, row, shown),
        rules=rules_from_json(comparison.rules).describe() if comparison else [],
        lands_reason=row.lands_reason,
        changed_files=row.changed_files,
        rule_changes=row.rule_changes,
        rows=rows,
        first_rows=read_first_rows(first_rows_folder(comparison), sight, place=place),
        statistics=charts.read_statistics(
            folder,
            sight,
            url=f"{url}&show=statistics",
            parameters=parameters,
            before=f"{pull.source} as reviewed" if shown.name == states.SINCE_REVIEW else before_branch,
            after=after_branch,
        )
        if folder and show == "statistics"
        else None,
        trend=_read_trend(loaded, row, principal, parameters, keeps={**place.keeps, "show": show})
        if show == "time"
        else None,
        three_ways=read_three_ways_view(row, sight, url=f"{url}&show=both", parameters=parameters)
        if show == "both"
        else None,
        retry_url=reverse("pull-compare-again", args=[pull.repository.name, pull.number]),
        cancel_url=reverse("pull-compare-cancel", args=[pull.repository.name, pull.number]),
        show=show,
        viewing=viewing,
        verdicts=_read_verdicts(loaded, row, principal),
        target=pull.target,
        drift=list_drift_of(loaded, shown),
        reviewed_at=review.created_at if review and seen else None,
        is_as_reviewed=bool(seen) and (seen == row.after_id or named.find_shown(row, states.SINCE_REVIEW).is_equal),
        has_code_effect=named.find_shown(row, states.CODE_EFFECT).comparison is not None,
        build_scope=states.AFFECTED if row.change == states.AFFECTED else states.MODIFIED,
        talk=_place_talk(row, rows, principal),
        moved_url=_moved_url(loaded, row, shown),
    )


def _find_shown(row: PullDataset, parameters: Mapping[str, Any]) -> named.Shown:
    return named.find_shown(row, str(parameters.get("compared", "")) or _find_first(row))


def _choose_view(parameters: Mapping[str, Any]) -> str:
    """Return which view of a comparison is asked for."""
    show = str(parameters.get("show", ""))
    return show if show in ("statistics", "time", "both") else "rows"


def _place_talk(row: PullDataset, rows: RowsView | None, principal: Principal) -> RowTalk:
    return place_row_talk(row, {line.n: line.key for line in rows.table.rows} if rows else {}, principal)


def _read_trend(
    loaded: Loaded, row: PullDataset, principal: Principal, parameters: Mapping[str, Any], *, keeps: Mapping[str, str]
) -> TrendView | None:
    """Return the dataset over its last transactions on the target as it is now, and on the branch."""
    if row.dataset is None:
        return None
    target = latest_committed(row.dataset, loaded.pull.target)
    heads = {loaded.pull.target: target, loaded.pull.source: row.after}
    committed = {name: head for name, head in heads.items() if head is not None}
    return read_trend_view(principal, row.dataset, committed, keeps=keeps, parameters=parameters)


def _moved_url(loaded: Loaded, row: PullDataset, shown: named.Shown) -> str:
    if loaded.pull.state != PullState.OPEN or not shown.is_ready:
        return ""
    before, after = _name_ends(shown)
    query = {"fragment": "moved", "dataset": row.path, "compared": shown.name, "before": before, "after": after}
    return f"{loaded.url}/data?{urlencode(query, safe='/')}"


def _name_ends(shown: named.Shown) -> list[str]:
    return [str(end.pk) if end else "" for end in (shown.before, shown.after)]


def read_moved(
    principal: Principal, repository: str, number: int, *, parameters: Mapping[str, Any]
) -> MovedRows | None:
    """Return what is to be compared instead of the two transactions that a page shows; None where it shows the newest."""
    pull = queries.get_pull(principal, repository, number)
    row = queries.find_dataset_row(principal, pull, str(parameters.get("dataset", "")))
    if row is None or pull.state != PullState.OPEN:
        return None
    shown = named.find_shown(row, str(parameters.get("compared", "")))
    branches = _name_branches(pull, shown.name)
    compared = [str(parameters.get(end, "")) for end in ("before", "after")]
    ends = zip(branches, compared, _name_ends(shown), strict=True)
    moves = [NewerRows(branch, new) for branch, old, new in ends if new not in ("", old)]
    query = {"dataset": row.path, "compared": shown.name}
    url = f"{reverse('pull-data', args=[repository, number])}?{urlencode(query, safe='/')}"
    return MovedRows(branches[0], compared[0], branches[1], compared[1], moves, url) if moves else None


def _name_branches(pull: PullRequest, compared: str) -> tuple[str, str]:
    """Return whose rows are before and after in one of the comparisons."""
    before = pull.source if compared == states.SINCE_REVIEW else pull.target
    return before, pull.target if compared == states.TARGET_SINCE else pull.source


def _read_verdicts(loaded: Loaded, row: PullDataset, principal: Principal) -> Verdicts:
    verdicts = [verdict for verdict in loaded.facts.dataset_verdicts if verdict.path == row.path]
    own = [verdict.verdict for verdict in verdicts if verdict.reviewer == principal.username and not verdict.void]
    may_judge = loaded.pull.state == PullState.OPEN and row.after_id is not None
    return Verdicts(
        given=[
            ShownVerdict(
                verdict.reviewer,
                "void" if verdict.void else "bad" if verdict.verdict == states.REJECTED else "ok",
                f"{verdict.verdict} other rows" if verdict.void else verdict.verdict,
                verdict.reason,
                verdict.given_at,
            )
            for verdict in verdicts
        ],
        own=own[0] if own else "",
        may_accept=may_judge and principal.user_id != loaded.pull.author_id,
        may_reject=may_judge,
        transaction=row.after_id or "",
    )


def _place_rows(row: PullDataset, shown: named.Shown) -> DiffPlace:
    """Return where the rows of a comparison are shown; the one that is shown first needs no name there."""
    pull = row.pull
    query = {"compared": shown.name} if shown.name != _find_first(row) else {}
    return DiffPlace(
        url=reverse("pull-data", args=[pull.repository.name, pull.number]),
        keeps={"dataset": row.path, **query},
        csv_url=_export_url("api-pull-rows-csv", row, shown),
        parquet_url=_export_url("api-pull-rows-parquet", row, shown),
        dataset_id=row.dataset_id,
        branch=_name_branches(pull, shown.name)[1],
        marks=Marks(
            lambda numbers: named.find_both(row, shown, numbers),
            _BOTH_NOTES[shown.name].format(source=pull.source, target=pull.target),
        ),
    )


_BOTH_NOTES = {
    states.THIS_BRANCH: "{target} has changed this row, too",
    states.CODE_EFFECT: "{target} has changed this row, too",
    states.TARGET_NOW: "{source} and {target} have both changed this row",
    states.TARGET_SINCE: "{source} has changed this row, too",
    states.BEFORE_REVERTED: "{target} has changed this row, too",
    states.SINCE_REVIEW: "{target} has changed this row, too",
}
_BEFORE_NOTES = {
    states.THIS_BRANCH: "where the branch left it",
    states.CODE_EFFECT: "its code on the branch's inputs",
    states.TARGET_NOW: "its newest data",
    states.TARGET_SINCE: "where the branch left it",
    states.BEFORE_REVERTED: "before what is reverted",
    states.SINCE_REVIEW: "as you reviewed it",
}


def _export_url(name: str, row: PullDataset, shown: named.Shown) -> str:
    """Return the address of an export, which shows what the dataset's default is where nothing is asked for."""
    url = reverse(name, args=[row.pull.repository.name, row.pull.number, row.dataset_id or 0])
    return f"{url}?{urlencode({'compared': shown.name})}" if shown.name != row.compared else url


def _schema_url(loaded: Loaded, row: PullDataset, shown: named.Shown) -> str:
    query = f"?compared={shown.name}" if shown.name != _find_first(row) else ""
    return f"{loaded.url}/schema{query}#{row.path}"


def _describe_since(loaded: Loaded, row: PullDataset, shown: named.Shown) -> SinceView | None:
    since = named.find_since(row)
    if since is None:
        return None
    return SinceView(
        counts=_read_counts(since),
        schema=_SCHEMA_NOTES.get(since.schema_status, ""),
        both=named.count_both(row, shown),
        url=_data_url(loaded, row, states.TARGET_SINCE),
        is_shown=shown.name == states.TARGET_SINCE,
        part=judge_part(loaded, row, shown),
    )


def _read_counts(shown: named.Shown) -> tuple[int, int, int] | None:
    """Return rows added, removed and changed; None before they are known."""
    if shown.comparison is None or not shown.is_ready:
        return None
    summary = shown.comparison.summary
    return int(summary.get("inserted", 0)), int(summary.get("deleted", 0)), int(summary.get("updated", 0))
