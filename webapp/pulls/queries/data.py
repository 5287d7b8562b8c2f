"""The tabs Data and Schema: the datasets of a pull request, one of them in full."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.core.errors import AppError, NotFound
from webapp.pulls.diffs import rows as stored
from webapp.pulls.diffs.schema import ColumnDiff, SchemaDiff, diff_artifact
from webapp.pulls.queries import charts
from webapp.pulls.queries.artifacts import artifact_folder
from webapp.pulls.queries.conversation import frame
from webapp.pulls.queries.head import Loaded, PullHead, load, read_head
from webapp.pulls.rules import states

if TYPE_CHECKING:
    from webapp.accounts.rules.principals import Principal
    from webapp.pulls.models import Comparison, PullDataset

MANY_COLUMNS = 8
"""With more columns than this, only the changed ones are shown at first."""
FLOAT_DIGITS = 7
DELTA_LENGTH = 8
SIGNS = {"inserted": ("ins", "+", "added"), "deleted": ("rm", "−", "removed"), "updated": ("up", "~", "changed")}
KINDS = (("", "All"), ("inserted", "Added"), ("deleted", "Removed"), ("updated", "Changed"))


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


@dataclass(frozen=True)
class ItemGroup:
    """Datasets changed in the same way."""

    name: str
    items: list[DatasetItem]


@dataclass(frozen=True)
class Choice:
    """One choice of a filter, as a link."""

    text: str
    url: str
    count: int | None
    is_current: bool
    tone: str = ""
    sign: str = ""


@dataclass(frozen=True)
class Size:
    """Rows a page."""

    value: int
    url: str
    current: bool


@dataclass(frozen=True)
class Head:
    """One column of the table."""

    name: str
    note: str
    pin: bool
    is_number: bool
    state: str


@dataclass(frozen=True)
class Cell:
    """One cell of the table."""

    state: str
    before: Any
    after: Any
    delta: str | None
    css: str
    pin: bool
    num: bool
    title: str = ""
    """All digits, where the cell shows fewer."""


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    n: int
    css: str
    sign: str
    word: str
    copies: int
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    """The rows of one page, ready to draw."""

    columns: list[Head]
    rows: list[Line]


@dataclass(frozen=True)
class Share:
    """A count with what it is a share of."""

    css: str
    sign: str
    count: int
    word: str
    whole: int


@dataclass(frozen=True)
class RowsView:
    """One page of a row diff with its filters."""

    table: Table
    text: str
    shares: list[Share]
    choices: list[Choice]
    columns: list[Choice]
    hidden: int
    only_changed: bool
    toggle_url: str
    sizes: list[Size]
    previous_url: str
    next_url: str
    q: str
    column: str
    change: str
    sort: str
    key: str
    mode: str
    trouble: Mapping[str, Any] | None
    asked_key: str
    is_complete: bool
    stored: int
    warnings: list[str]
    ignored: list[str]
    csv_url: str
    parquet_url: str
    hidden_fields: list[tuple[str, str]]
    problem: str = ""


@dataclass(frozen=True)
class DatasetView:
    """The chosen dataset in full."""

    path: str
    dataset_id: int | None
    url: str
    change: str
    change_word: str
    state: str
    reason: str
    error: str
    progress_text: str
    progress: int | None
    is_moving: bool
    before_id: str
    after_id: str
    before_branch: str
    after_branch: str
    current: bool
    schema: SchemaDiff | None
    schema_url: str
    rows: RowsView | None
    statistics: charts.Statistics | None
    retry_url: str
    show: str

    @property
    def stale_text(self) -> str:
        """What a moved target means for these rows."""
        return (
            f"{self.before_branch} has moved since this branch began, so some of these differences may come from there."
            f" Merge {self.before_branch} into {self.after_branch} and build it to see the effect of this branch alone."
        )


@dataclass(frozen=True)
class DataPage:
    """Context of the Data tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    groups: list[ItemGroup]
    view: DatasetView | None
    pull_url: str
    build_url: str


@dataclass(frozen=True)
class SchemaView:
    """The schema diff of one dataset."""

    path: str
    data_url: str
    change: str
    diff: SchemaDiff | None
    shown: list[ColumnDiff]
    same: list[ColumnDiff]
    reason: str

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
    views: list[SchemaView]
    unchanged: list[SchemaView]
    missing: list[SchemaView] = field(default_factory=list)


CHANGE_WORDS = {
    states.MODIFIED: "changed",
    states.ADDED: "new",
    states.REMOVED: "removed",
    states.AFFECTED: "downstream only",
}


def read_data(principal: Principal, repository: str, number: int, *, parameters: Mapping[str, Any]) -> DataPage:
    """Return what the Data tab shows."""
    loaded = load(principal, repository, number)
    row = _choose(loaded, str(parameters.get("dataset", "")))
    return DataPage(
        **frame(repository),
        head=read_head(principal, loaded),
        tab="Data",
        groups=_group_items(loaded, row),
        view=_view_dataset(loaded, row, parameters) if row else None,
        pull_url=loaded.url,
        build_url=reverse("pull-build", args=[repository, number]),
    )


def read_schema(principal: Principal, repository: str, number: int) -> SchemaPage:
    """Return what the Schema tab shows."""
    loaded = load(principal, repository, number)
    views = [_view_schema(loaded, row) for row in loaded.rows]
    return SchemaPage(
        **frame(repository),
        head=read_head(principal, loaded),
        tab="Schema",
        views=[one for one in views if one.diff is not None and one.diff.count],
        unchanged=[one for one in views if one.diff is not None and not one.diff.count],
        missing=[one for one in views if one.diff is None],
    )


def _view_schema(loaded: Loaded, row: PullDataset) -> SchemaView:
    diff = diff_artifact(row.comparison.schema) if row.comparison and row.comparison.schema else None
    columns = diff.columns if diff else ()
    return SchemaView(
        path=row.path,
        data_url=f"{loaded.url}/data?dataset={row.path}",
        change=CHANGE_WORDS.get(row.change, row.change),
        diff=diff,
        shown=[one for one in columns if one.changes],
        same=[one for one in columns if not one.changes],
        reason=row.reason or "Not compared yet.",
    )


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


def _group_items(loaded: Loaded, chosen: PullDataset | None) -> list[ItemGroup]:
    kinds = [
        ("Code or data changed", (states.MODIFIED, states.ADDED, states.REMOVED)),
        ("Downstream only", (states.AFFECTED,)),
    ]
    groups = []
    for name, changes in kinds:
        items = [_item(loaded, row, is_current=row is chosen) for row in loaded.rows if row.change in changes]
        if items:
            groups.append(ItemGroup(name, items))
    return groups


_ICONS = {
    states.ADDED: ("diff-added", "okc"),
    states.REMOVED: ("diff-removed", "badc"),
    states.MODIFIED: ("diff-modified", "warnc"),
    states.AFFECTED: ("git-compare", ""),
}


def _item(loaded: Loaded, row: PullDataset, *, is_current: bool) -> DatasetItem:
    icon, tone = _ICONS.get(row.change, ("table", ""))
    comparison = row.comparison
    counts = None
    note = "not compared"
    if comparison is not None:
        note = {states.QUEUED: "queued", states.RUNNING: "comparing", states.FAILED: "comparison failed"}.get(
            comparison.state, ""
        )
        if comparison.state == states.READY:
            summary = comparison.summary
            counts = (int(summary.get("inserted", 0)), int(summary.get("deleted", 0)), int(summary.get("updated", 0)))
    schema = {states.BREAKING: "schema breaks", states.CHANGED: "schema changed"}.get(row.schema_status, "")
    url = f"{loaded.url}/data?{urlencode({'dataset': row.path}, safe='/')}"
    return DatasetItem(row.path, url, row.change, icon, tone, counts, note, is_current, schema)


# ---- one dataset ---------------------------------------------------------------------------------------------------


def _view_dataset(loaded: Loaded, row: PullDataset, parameters: Mapping[str, Any]) -> DatasetView:
    comparison = row.comparison
    show = "statistics" if parameters.get("show") == "statistics" else "rows"
    state = comparison.state if comparison else states.NOT_COMPARED
    ready = comparison is not None and comparison.state == states.READY
    pull = loaded.pull
    text, percent = _describe_progress(comparison)
    return DatasetView(
        path=row.path,
        dataset_id=row.dataset_id,
        url=f"{loaded.url}/data?{urlencode({'dataset': row.path}, safe='/')}",
        change=row.change,
        change_word=CHANGE_WORDS.get(row.change, row.change),
        state=state,
        reason=row.reason,
        error=comparison.error if comparison else "",
        progress_text=text,
        progress=percent,
        is_moving=state in (states.QUEUED, states.RUNNING),
        before_id=row.before_id or "",
        after_id=row.after_id or "",
        before_branch=pull.target,
        after_branch=pull.source,
        current=row.current,
        schema=diff_artifact(comparison.schema) if comparison and comparison.schema else None,
        schema_url=f"{loaded.url}/schema#{row.path}",
        rows=_read_rows(loaded, row, comparison, parameters) if ready and comparison and show == "rows" else None,
        statistics=_read_statistics(comparison, pull.target, pull.source)
        if ready and comparison and show == "statistics"
        else None,
        retry_url=reverse("pull-compare-again", args=[pull.repository.name, pull.number]),
        show=show,
    )


def _describe_progress(comparison: Comparison | None) -> tuple[str, int | None]:
    if comparison is None or comparison.state not in (states.QUEUED, states.RUNNING):
        return "", None
    progress = comparison.progress or {}
    if comparison.state == states.QUEUED:
        return "Waits for a worker.", None
    phase = str(progress.get("phase", "starting")).replace("_", " ")
    done, total = progress.get("files_done"), progress.get("files_total") or progress.get("files")
    if isinstance(done, int) and isinstance(total, int) and total:
        return f"{phase.capitalize()}: {done} of {total} files.", round(100 * done / total)
    seconds = progress.get("elapsed_s")
    return f"{phase.capitalize()}" + (f", {seconds:.0f} s so far." if isinstance(seconds, int | float) else "."), None


def _read_statistics(comparison: Comparison, before: str, after: str) -> charts.Statistics | None:
    return charts.read_statistics(artifact_folder(comparison), before=before, after=after)


def _read_rows(loaded: Loaded, row: PullDataset, comparison: Comparison, parameters: Mapping[str, Any]) -> RowsView:
    asked = _Asked.parse(parameters)
    folder = artifact_folder(comparison)
    problem = ""
    try:
        page = stored.read_page(folder, **asked.arguments)
    except AppError as error:
        # What the address asks for cannot be answered: say it above the unfiltered rows. What is gone is refused.
        if error.status != 400:
            raise
        problem = error.detail
        asked = _Asked(limit=asked.limit)
        page = stored.read_page(folder, **asked.arguments)
    return _RowsBuilder(loaded, row, page, asked, problem, str(parameters.get("columns", ""))).build()


@dataclass(frozen=True)
class _Asked:
    """What the address asks for."""

    change: str = ""
    column: str = ""
    q: str = ""
    sort: str = ""
    cursor: str = ""
    limit: int = stored.DEFAULT_LIMIT

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> _Asked:
        limit = str(parameters.get("limit", ""))
        change = str(parameters.get("change", ""))
        return cls(
            change=change,
            column=str(parameters.get("column", "")),
            q=str(parameters.get("q", "")).strip(),
            sort=str(parameters.get("sort", "")),
            cursor=str(parameters.get("cursor", "")),
            limit=int(limit) if limit.isdigit() and int(limit) in stored.LIMITS else stored.DEFAULT_LIMIT,
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """What reading takes."""
        return {
            "change": [self.change] if self.change else [],
            "column": self.column or None,
            "q": self.q or None,
            "sort": self.sort or None,
            "cursor": self.cursor or None,
            "limit": self.limit,
        }


@dataclass(frozen=True)
class _RowsBuilder:
    loaded: Loaded
    row: PullDataset
    page: stored.RowPage
    asked: _Asked
    problem: str
    columns_wish: str

    def build(self) -> RowsView:
        """Put table, filters and addresses together."""
        page, asked = self.page, self.asked
        shown = self._shown_columns()
        summary = page.summary
        export = [self.loaded.pull.repository.name, self.loaded.pull.number, self.row.dataset_id or 0]
        return RowsView(
            table=Table([self._head(one) for one in shown], [self._line(one, shown) for one in page.rows]),
            text=self._text(),
            shares=self._shares(),
            choices=self._choices(),
            columns=self._column_choices(),
            hidden=len(page.columns) - len(shown),
            only_changed=self._only_changed,
            toggle_url=self._url(columns="all" if self._only_changed else "changed", cursor=asked.cursor),
            sizes=[Size(value, self._url(limit=value), current=value == asked.limit) for value in stored.LIMITS],
            previous_url=self._url(cursor=page.previous) if page.previous else "",
            next_url=self._url(cursor=page.next) if page.next else "",
            q=asked.q,
            column=asked.column,
            change=asked.change,
            sort=asked.sort,
            key=", ".join(page.key),
            mode=page.mode,
            trouble=summary.get("key_trouble"),
            asked_key=", ".join(summary.get("asked_key") or ()),
            is_complete=bool(summary.get("is_complete", True)),
            stored=int(summary.get("stored_rows", 0)),
            warnings=[str(one) for one in summary.get("warnings", ())],
            ignored=list(summary.get("ignored", ())),
            csv_url=reverse("api-pull-rows-csv", args=export),
            parquet_url=reverse("api-pull-rows-parquet", args=export),
            hidden_fields=self._hidden_fields(),
            problem=self.problem,
        )

    @property
    def _only_changed(self) -> bool:
        if self.columns_wish in ("all", "changed"):
            return self.columns_wish == "changed"
        return len(self.page.columns) > MANY_COLUMNS

    def _shown_columns(self) -> list[stored.Column]:
        columns = [one for one in self.page.columns if not self._only_changed or self._is_telling(one)]
        # Where only the key is left, the rows themselves are the news: then every column tells something.
        columns = columns if len(columns) > len(self.page.key) else list(self.page.columns)
        return sorted(columns, key=lambda one: not one.is_key)

    def _is_telling(self, column: stored.Column) -> bool:
        """Whether any row of the whole diff differs in it, so that columns stay while the reader pages."""
        return column.is_key or bool(column.changed) or column.state != "same" or self.page.mode == "net"

    def _url(self, **changes: object) -> str:
        asked = self.asked
        values: dict[str, object] = {
            "dataset": self.row.path,
            "change": asked.change,
            "column": asked.column,
            "q": asked.q,
            "sort": asked.sort,
            "limit": asked.limit if asked.limit != stored.DEFAULT_LIMIT else "",
            "columns": self.columns_wish,
            **changes,
        }
        kept = {name: value for name, value in values.items() if value not in ("", None)}
        return f"{self.loaded.url}/data?{urlencode(kept, safe='/')}#rows"

    def _hidden_fields(self) -> list[tuple[str, str]]:
        asked = self.asked
        values = [
            ("dataset", self.row.path),
            ("change", asked.change),
            ("column", asked.column),
            ("columns", self.columns_wish),
        ]
        return [(name, value) for name, value in values if value]

    def _text(self) -> str:
        page = self.page
        if not page.rows:
            return "No row"
        order = f"sorted by {self.asked.sort.removeprefix('-')}" if self.asked.sort else ""
        order = order or (f"ordered by {', '.join(page.key)}" if page.key else "in no order of theirs")
        return f"Rows {page.first:,}–{page.last:,} of {page.total:,}, {order}"

    def _shares(self) -> list[Share]:
        summary = self.page.summary
        before, after = int(summary.get("before_rows", 0)), int(summary.get("after_rows", 0))
        shares = [
            Share("add", "+", int(summary.get("inserted", 0)), "added", after),
            Share("del", "−", int(summary.get("deleted", 0)), "removed", before),
        ]
        if self.page.mode == "identifier":
            shares.append(Share("mod", "~", int(summary.get("updated", 0)), "changed", before))
        shares.append(Share("muted", "", int(summary.get("unchanged", 0)), "same", before))
        return shares

    def _choices(self) -> list[Choice]:
        summary = self.page.summary
        found = []
        for value, text in KINDS:
            if value == "updated" and self.page.mode == "net":
                continue
            count = int(summary.get(value, 0)) if value else None
            css, sign, _word = SIGNS.get(value, ("", "", ""))
            tone = {"ins": "add", "rm": "del", "up": "mod"}.get(css, "")
            found.append(Choice(text, self._url(change=value), count, self.asked.change == value, tone, sign))
        return found

    def _column_choices(self) -> list[Choice]:
        changed = [one for one in self.page.columns if one.changed]
        found = [
            Choice(
                one.name,
                self._url(column="" if self.asked.column == one.name else one.name),
                one.changed,
                self.asked.column == one.name,
            )
            for one in sorted(changed, key=lambda one: -(one.changed or 0))
        ]
        return found[:24]

    def _head(self, column: stored.Column) -> Head:
        parts = [column.type]
        if column.state == "retyped":
            parts = [f"{column.before_type} → {column.after_type}"]
        if column.state == "renamed":
            parts.append(f"was {column.before_name}")
        if column.is_key:
            parts.append("key")
        if column.is_ignored:
            parts.append("ignored")
        if column.is_unreadable:
            parts.append("not readable")
        return Head(column.name, " · ".join(parts), column.is_key, column.is_number, column.state)

    def _line(self, row: stored.Row, shown: list[stored.Column]) -> Line:
        css, sign, word = SIGNS[row.change]
        cells = {cell.column.index: cell for cell in row.cells}
        return Line(row.n, css, sign, word, row.copies, [self._cell(cells[one.index]) for one in shown])

    def _cell(self, cell: stored.Cell) -> Cell:
        column = cell.column
        marks = ["num"] if column.is_number else []
        if cell.state == "changed":
            marks.append("chg")
        elif cell.state == "inserted" and column.state == "added":
            marks.append("ins")
        elif cell.state == "deleted" and column.state == "removed":
            marks.append("rm")
        elif cell.state == "none":
            marks.append("none")
        elif cell.state == "same":
            marks.append("same")
        before, after = _write(cell.before, column.before_type), _write(cell.after, column.after_type)
        if cell.state == "changed" and before == after:
            # Shortened they look alike, so the reader gets all digits.
            before, after = cell.before, cell.after
        is_short = (before, after) != (cell.before, cell.after) and "timestamp" not in column.type
        whole = [str(one) for one in (cell.before, cell.after) if one is not None] if is_short else []
        title = " → ".join(whole if cell.state == "changed" else whole[-1:])
        delta = _shorten(cell.delta) if cell.delta else None
        return Cell(cell.state, before, after, delta, " ".join(marks), column.is_key, column.is_number, title)


def _write(value: Any, kind: str | None) -> Any:
    """Times and floating point numbers as people write them; API and exports keep every digit."""
    if isinstance(value, str) and kind and kind.startswith("timestamp"):
        return value.replace("T", " ", 1).replace("+00:00", "Z")
    if isinstance(value, float) and len(repr(value)) > FLOAT_DIGITS + 2 and math.isfinite(value):
        return f"{value:.{FLOAT_DIGITS}g}".replace("-", "−", 1) if value < 0 else f"{value:.{FLOAT_DIGITS}g}"
    return value


def _shorten(delta: str) -> str:
    """A difference with as many digits as say something; it is signed."""
    return (
        f"{float(delta):+.4g}".replace("-", "−", 1)
        if "." in delta and len(delta) > DELTA_LENGTH
        else delta.replace("-", "−", 1)
    )
