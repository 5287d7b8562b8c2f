"""One page of a row diff with its filters, wherever it is shown: in a pull request or between any two transactions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from webapp.comparisons.diffs import rows as stored
from webapp.comparisons.diffs.key_proposals import KeyProposal, propose_keys
from webapp.comparisons.diffs.keyed import VALUES
from webapp.comparisons.diffs.pictures import list_values
from webapp.comparisons.pages.blame import blame_url
from webapp.comparisons.pages.columns import choose_columns
from webapp.comparisons.pages.progress import count_differing
from webapp.comparisons.rules.row_keys import read_key, write_key
from webapp.core.characters import find_lookalikes
from webapp.core.errors import AppError, BadRequest, NotFound
from webapp.core.numbers import read_count
from webapp.core.templatetags.ui import filesize
from webapp.core.value_diffs import DocumentLine, Piece, diff_documents, diff_words, read_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from webapp.accounts.rules.sight import RowSight
    from webapp.comparisons.diffs.artifact import DiffColumn

MANY_COLUMNS = 8
"""With more columns than this, only the changed ones are shown at first."""
MOST_CHIPS = 24
"""Of columns in one line; the others are found in the table."""
COLUMNS_PER_PAGE = 50
"""Beside the key; the cells of more make a page of megabytes."""
ROWS_PER_PAGE = (50, 100, 250)
"""That the page offers; its address may have any number up to the last."""
USUAL_ROWS = 50
"""More than two screens of the box that they scroll in; a browser draws a hundred in twice the time."""
FLOAT_DIGITS = 7
DELTA_LENGTH = 8
SHORT_TEXT = 30
"""Of which a cell shows both ends without trouble."""
ONE_LINE, TWO_LINES = "", "two"
"""A changed row has its old and new values in each cell, or two lines."""
SIGNS = {"inserted": ("ins", "+", "added"), "deleted": ("rm", "−", "removed"), "updated": ("up", "~", "changed")}
KINDS = (("", "All"), ("inserted", "Added"), ("deleted", "Removed"), ("updated", "Changed"))


@dataclass(frozen=True)
class Marks:
    """Rows of a page that something else is to be said of."""

    find: Callable[[Iterable[int]], set[int]]
    """Numbers of rows → those that are marked."""
    text: str


@dataclass(frozen=True)
class DiffPlace:
    """Where a row diff is shown: the page's address, what its links keep, and the exports of the whole."""

    url: str
    keeps: Mapping[str, str]
    csv_url: str
    parquet_url: str
    dataset_id: int | None = None
    branch: str = ""
    """Where the history of a row is looked for."""
    marks: Marks | None = None
    """Which rows something else is to be said of."""


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
class ColumnHead:
    """One column of the table."""

    name: str
    note: str
    pin: bool
    is_number: bool
    state: str
    equal: float | None = None
    """In which share of the rows of both ends its values are equal; None where that is not known, and of a key."""
    is_hidden: bool = False
    """Whether its values are hidden from the reader."""


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
    is_hidden: bool = False
    """Whether it has a value that is hidden from the reader."""
    lookalike: Any = None
    """A value of another row of the page that looks like this one and is not; None without one."""


@dataclass(frozen=True)
class DiffRow:
    """One row of the table."""

    n: int
    css: str
    sign: str
    word: str
    copies: int
    cells: list[Cell]
    url: str
    """Who changed the row; empty without a key."""
    key: Mapping[str, Any]
    mark: str = ""
    """What else is to be said of it."""
    link: str = ""
    """Where the page has this row; empty without a key."""
    is_sought: bool = False
    """Whether the address asks for it."""


@dataclass(frozen=True)
class DiffTable:
    """The rows of one page, ready to draw."""

    columns: list[ColumnHead]
    rows: list[DiffRow]


@dataclass(frozen=True)
class CountShare:
    """A count with what it is a share of."""

    css: str
    sign: str
    count: int
    word: str
    whole: int


@dataclass(frozen=True)
class ChangedValue:
    """A value of the row that an address asks for, with what differs inside it."""

    name: str
    note: str
    before: list[Piece]
    after: list[Piece]
    lines: list[DocumentLine]
    """Of a document, in the place of the two."""


@dataclass(frozen=True)
class SoughtRow:
    """The row that an address asks for by its key, and what is to be found from there."""

    words: str
    changed: str
    """The columns that changed; empty where the whole row came or went."""
    values: list[ChangedValue]
    """Those that changed and are longer than a cell shows, or documents."""
    alike_url: str
    """Rows with changes in the same columns."""
    same_url: str
    """Those of them with the same values there, too; empty where that is no other question."""
    blame_url: str
    close_url: str


@dataclass(frozen=True)
class ProposedKeys:
    """Keys that rows without one could have."""

    proposals: list[KeyProposal]
    rows: int
    """In which they were looked for."""
    problem: str


@dataclass(frozen=True)
class Alike:
    """That only rows are shown that are like a certain one."""

    key: str
    is_of_values: bool
    row_url: str
    all_url: str


@dataclass(frozen=True)
class RowsView:
    """One page of a row diff with its filters."""

    table: DiffTable
    text: str
    shares: list[CountShare]
    changed_cells: int
    """Values that differ in rows of both ends."""
    changed_columns: int
    lines_choices: list[Choice]
    """Whether a changed row is drawn as one line or as two; none where no row changed."""
    choices: list[Choice]
    columns: list[Choice]
    quiet_columns: list[Choice]
    """Those that do not differ, where only changed ones are shown: each may be shown too."""
    hidden: int
    only_changed: bool
    toggle_url: str
    columns_text: str
    """Which columns are drawn; empty where all are."""
    columns_before_url: str
    columns_after_url: str
    sizes: list[Size]
    previous_url: str
    next_url: str
    q: str
    column: str
    change: str
    sort: str
    key: str
    key_columns: list[str]
    mode: str
    trouble: Mapping[str, Any] | None
    masked: Sequence[str]
    """Columns whose values are hidden from the reader."""
    is_complete: bool
    stored: int
    warnings: list[str]
    row_filter: str
    """Which rows are compared; empty: all."""
    engine: str
    """What compared the rows, and what that took."""
    csv_url: str
    parquet_url: str
    hidden_fields: list[tuple[str, str]]
    all_url: str
    """All changed rows."""
    problem: str = ""
    """Why what the address asks for has no answer; there are no rows then."""
    problem_title: str = ""
    sought: SoughtRow | None = None
    alike: Alike | None = None
    propose_url: str = ""
    """What looks for keys that the rows could have; empty where they have one."""
    proposed: ProposedKeys | None = None


def read_rows(folder: Path, sight: RowSight, *, parameters: Mapping[str, Any], place: DiffPlace) -> RowsView:
    """Return the page of a stored row diff that an address asks for."""
    query = _RowsQuery.parse(parameters)
    problem = title = ""
    try:
        page = stored.read_page(folder, sight, **query.arguments)
    except (BadRequest, NotFound) as error:
        # Rows that were not asked for would pass for an answer.
        problem, title = error.detail, "No such row" if isinstance(error, NotFound) else "Not understood"
        page = stored.read_no_rows(folder, sight)
    view = _RowsBuilder(place, page, query, problem, str(parameters.get("columns", ""))).build()
    proposed = _propose(folder, sight, page) if parameters.get("propose") == "key" and page.mode == "net" else None
    return replace(view, problem_title=title, proposed=proposed)


def _propose(folder: Path, sight: RowSight, page: stored.RowPage) -> ProposedKeys:
    rows = int(page.summary.get("stored_rows", 0))
    try:
        return ProposedKeys(propose_keys(folder, sight), rows, "")
    except AppError as error:
        return ProposedKeys([], rows, error.detail)


def read_first_rows(folder: Path | None, sight: RowSight, *, place: DiffPlace) -> RowsView | None:
    """Return the first rows by key of a comparison that still runs; None where there are none to show, yet or any more."""
    if folder is None:
        return None
    try:
        view = read_rows(folder, sight, parameters={}, place=place)
    except AppError:
        # the run began anew in this moment
        return None
    return view if view.table.rows else None


def draw_picture(picture: Mapping[str, Any]) -> DiffTable:
    """Return the row of a picture (`diffs.pictures`) as a table of one."""
    css, sign, word = SIGNS[picture["change"]]
    values = list_values(picture)
    row = DiffRow(0, css, sign, word, 1, [_draw_cell(value) for value in values], "", {})
    return make_table([_draw_head(value.column) for value in values], [row])


def make_table(columns: list[ColumnHead], rows: list[DiffRow]) -> DiffTable:
    """Return a table in which each value names another one of its column that looks like it, if there is one."""
    lookalikes = [
        find_lookalikes(
            value
            for row in rows
            if not row.cells[place].is_hidden
            for value in (row.cells[place].before, row.cells[place].after)
            if isinstance(value, str)
        )
        for place in range(len(columns))
    ]
    if not any(lookalikes):
        return DiffTable(columns, rows)

    def mark(cell: Cell, others: Mapping[str, str]) -> Cell:
        value = cell.before if cell.state == "deleted" else cell.after
        return replace(cell, lookalike=others.get(value)) if isinstance(value, str) and not cell.is_hidden else cell

    return DiffTable(columns, [replace(row, cells=list(map(mark, row.cells, lookalikes))) for row in rows])


@dataclass(frozen=True)
class _RowsQuery:
    """What the address asks for."""

    change: str = ""
    column: str = ""
    q: str = ""
    sort: str = ""
    cursor: str = ""
    limit: int = USUAL_ROWS
    columns_page: int = 0
    row: str = ""
    like: str = ""
    alike: str = ""
    lines: str = ONE_LINE
    also: tuple[str, ...] = ()
    """Columns that are shown although they do not differ."""

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> _RowsQuery:
        limit = read_count(str(parameters.get("limit", "")), most=ROWS_PER_PAGE[-1])
        change = str(parameters.get("change", ""))
        return cls(
            change=change,
            column=str(parameters.get("column", "")),
            q=str(parameters.get("q", "")).strip(),
            sort=str(parameters.get("sort", "")),
            cursor=str(parameters.get("cursor", "")),
            limit=limit or USUAL_ROWS,
            columns_page=read_count(str(parameters.get("columns_page", ""))) or 0,
            row=str(parameters.get("row", "")),
            like=str(parameters.get("like", "")),
            alike=str(parameters.get("alike", "")),
            lines=TWO_LINES if parameters.get("lines") == TWO_LINES else ONE_LINE,
            also=tuple(name for name in read_key(str(parameters.get("also", ""))) or () if name),
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
            "row": self.row or None,
            "like": self.like or None,
            "alike": self.alike or None,
        }


@dataclass(frozen=True)
class _RowsBuilder:
    place: DiffPlace
    page: stored.RowPage
    query: _RowsQuery
    problem: str
    columns_wish: str

    def build(self) -> RowsView:
        """Put table, filters and addresses together."""
        page, query = self.page, self.query
        fitting = self._list_columns()
        place = self._choose_columns(fitting)
        shown = [*(column for column in fitting if column.is_key), *fitting[place]]
        marks = self.place.marks
        marked = dict.fromkeys(marks.find(row.n for row in page.rows), marks.text) if marks else {}
        summary = page.summary
        return RowsView(
            table=make_table(
                [_draw_head(column) for column in shown],
                [line for row in page.rows for line in self._draw_lines(row, shown, marked.get(row.n, ""))],
            ),
            text=self._text(),
            shares=self._shares(),
            changed_cells=sum(column.changed or 0 for column in page.columns),
            changed_columns=sum(bool(column.changed) for column in page.columns),
            lines_choices=self._lines_choices(),
            choices=self._choices(),
            columns=self._column_choices(),
            quiet_columns=self._quiet_choices(),
            hidden=len(page.columns) - len(fitting),
            only_changed=self._only_changed,
            toggle_url=self._url(
                columns="all" if self._only_changed else "changed", columns_page="", also="", **self._here
            ),
            **self._describe_columns(fitting, place),
            sizes=[Size(value, self._url(limit=value), current=value == query.limit) for value in ROWS_PER_PAGE],
            previous_url=self._url(cursor=page.previous) if page.previous else "",
            next_url=self._url(cursor=page.next) if page.next else "",
            q=query.q,
            column=query.column,
            change=query.change,
            sort=query.sort,
            key=", ".join(page.key),
            key_columns=[] if self._is_key_hidden else list(page.key),
            mode=page.mode,
            trouble=summary.get("key_trouble"),
            masked=page.masked,
            is_complete=bool(summary.get("is_complete", True)),
            stored=int(summary.get("stored_rows", 0)),
            warnings=[str(warning) for warning in summary.get("warnings", ())],
            row_filter=str(summary.get("row_filter") or ""),
            engine=describe_engine(summary),
            csv_url=self.place.csv_url,
            parquet_url=self.place.parquet_url,
            hidden_fields=self._hidden_fields(),
            all_url=self._url(change="", column="", q="", sort="", like="", alike=""),
            problem=self.problem,
            sought=self._describe_sought(),
            alike=self._describe_alike(),
            propose_url=self._url(propose="key") if page.mode == "net" and page.total else "",
            proposed=None,
        )

    @property
    def _here(self) -> dict[str, str]:
        """What a link to this page of rows keeps beside its filters."""
        return {"row": self.query.row} if self.query.row else {"cursor": self.query.cursor}

    def _describe_sought(self) -> SoughtRow | None:
        row = next((row for row in self.page.rows if row.n == self.page.sought), None)
        if row is None:
            return None
        like = self._url(like=write_key(row.key.values()), alike="", change="", column="")
        has_values = bool(row.changed)
        return SoughtRow(
            words=", ".join(f"{name} = {'null' if value is None else value}" for name, value in row.key.items()),
            changed=", ".join(row.changed),
            values=[value for cell in row.cells if (value := _expand(cell)) is not None],
            alike_url=like,
            same_url=f"{like}&alike={VALUES}" if has_values else "",
            blame_url=self._blame(row.key),
            close_url=self._url(),
        )

    def _describe_alike(self) -> Alike | None:
        query = self.query
        if not query.like:
            return None
        return Alike(
            key=query.like,
            is_of_values=query.alike == VALUES,
            row_url=self._url(row=query.like),
            all_url=self._url(like="", alike=""),
        )

    @property
    def _only_changed(self) -> bool:
        if self.columns_wish in ("all", "changed"):
            return self.columns_wish == "changed"
        return len(self.page.columns) > MANY_COLUMNS

    @property
    def _is_key_hidden(self) -> bool:
        """Whether a part of the key is hidden from the reader, to whom it names no row then."""
        return any(column.is_key and column.is_hidden for column in self.page.columns)

    def _list_columns(self) -> list[DiffColumn]:
        """List the columns that the reader asked for, those of the key first."""
        hidden = {column.name for column in self._quiet} - set(self.query.also)
        columns = [column for column in self.page.columns if column.name not in hidden]
        return sorted(columns, key=lambda column: not column.is_key)

    @cached_property
    def _quiet(self) -> list[DiffColumn]:
        """The columns that are not shown unless somebody asks for them."""
        if not self._only_changed:
            return []
        quiet = [column for column in self.page.columns if not self._is_telling(column)]
        # Where only the key is left, the rows themselves are the news: then every column tells something.
        return quiet if len(self.page.columns) - len(quiet) > len(self.page.key) else []

    def _choose_columns(self, columns: list[DiffColumn]) -> slice:
        """Choose which of these columns are drawn beside the key: a page of them."""
        key = sum(column.is_key for column in columns)
        chosen = choose_columns(len(columns) - key, page=self.query.columns_page, size=COLUMNS_PER_PAGE)
        return slice(key + chosen.start, key + chosen.stop)

    def _describe_columns(self, columns: list[DiffColumn], drawn: slice) -> dict[str, str]:
        """Say which columns are drawn, and where the others are."""
        key = sum(column.is_key for column in columns)
        page = (drawn.start - key) // COLUMNS_PER_PAGE
        is_whole = drawn.stop - drawn.start == len(columns) - key
        text = f"Columns {drawn.start - key + 1:,}–{drawn.stop - key:,} of {len(columns) - key:,} beside the key"
        here = self._here
        return {
            "columns_text": "" if is_whole else text,
            "columns_before_url": self._url(columns_page=page - 1 or "", **here) if page else "",
            "columns_after_url": self._url(columns_page=page + 1, **here) if drawn.stop < len(columns) else "",
        }

    def _is_telling(self, column: DiffColumn) -> bool:
        """Return whether any row of the whole diff differs in it, so that columns stay while the reader pages."""
        return column.is_key or bool(column.changed) or column.state != "same" or self.page.mode == "net"

    def _url(self, **changes: object) -> str:
        query = self.query
        values: dict[str, object] = {
            **self.place.keeps,
            "change": query.change,
            "column": query.column,
            "q": query.q,
            "sort": query.sort,
            "limit": query.limit if query.limit != USUAL_ROWS else "",
            "columns": self.columns_wish,
            "columns_page": query.columns_page or "",
            "like": query.like,
            "alike": query.alike,
            "lines": query.lines,
            "also": write_key(query.also),
            **changes,
        }
        parameters = {name: value for name, value in values.items() if value not in ("", None)}
        return f"{self.place.url}?{urlencode(parameters, safe='/')}"

    def _hidden_fields(self) -> list[tuple[str, str]]:
        query = self.query
        values = [
            *self.place.keeps.items(),
            ("change", query.change),
            ("column", query.column),
            ("columns", self.columns_wish),
            ("like", query.like),
            ("alike", query.alike),
            ("lines", query.lines),
            ("also", write_key(query.also)),
        ]
        return [(name, value) for name, value in values if value]

    def _text(self) -> str:
        page = self.page
        if not page.rows:
            return "No row"
        order = f"sorted by {self.query.sort.removeprefix('-')}" if self.query.sort else ""
        order = order or (f"ordered by {', '.join(page.key)}" if page.key else "in no order of theirs")
        return f"Rows {page.first:,}–{page.last:,} of {page.total:,}, {order}"

    def _shares(self) -> list[CountShare]:
        summary = self.page.summary
        before, after = int(summary.get("before_rows", 0)), int(summary.get("after_rows", 0))
        shares = [
            CountShare("add", "+", int(summary.get("inserted", 0)), "added", after),
            CountShare("del", "−", int(summary.get("deleted", 0)), "removed", before),
        ]
        if self.page.mode == "identifier":
            shares.append(CountShare("mod", "~", int(summary.get("updated", 0)), "changed", before))
        shares.append(CountShare("muted", "", int(summary.get("unchanged", 0)), "same", before))
        return shares

    def _choices(self) -> list[Choice]:
        summary = self.page.summary
        choices = []
        for value, text in KINDS:
            if value == "updated" and self.page.mode == "net":
                continue
            count = int(summary.get(value, 0)) if value else None
            css, sign, _word = SIGNS.get(value, ("", "", ""))
            tone = {"ins": "add", "rm": "del", "up": "mod"}.get(css, "")
            choices.append(Choice(text, self._url(change=value), count, self.query.change == value, tone, sign))
        return choices

    def _column_choices(self) -> list[Choice]:
        changed = [column for column in self.page.columns if column.changed]
        choices = [
            Choice(
                column.name,
                self._url(column="" if self.query.column == column.name else column.name),
                column.changed,
                self.query.column == column.name,
            )
            for column in sorted(changed, key=lambda column: -(column.changed or 0))
        ]
        return choices[:MOST_CHIPS]

    def _quiet_choices(self) -> list[Choice]:
        also = self.query.also
        choices = []
        for column in self._quiet:
            is_shown = column.name in also
            names = [name for name in also if name != column.name] if is_shown else [*also, column.name]
            choices.append(Choice(column.name, self._url(also=write_key(names), **self._here), None, is_shown))
        return sorted(choices, key=lambda choice: not choice.is_current)[:MOST_CHIPS]

    def _line(self, row: stored.Row, shown: list[DiffColumn], mark: str) -> DiffRow:
        css, sign, word = SIGNS[row.change]
        cells = {cell.column: cell for cell in row.cells}
        shown_cells = [_draw_cell(cells[column]) for column in shown]
        key = {} if self._is_key_hidden else row.key
        link = f"{self._row_url}{quote(write_key(key.values()))}" if key else ""
        return DiffRow(
            row.n, css, sign, word, row.copies, shown_cells, self._blame(key), key, mark, link,
            row.n == self.page.sought,
        )  # fmt: skip

    @cached_property
    def _row_url(self) -> str:
        """The address of a row on this page, up to its key; short, since there are many."""
        return f"?{self._url(row='').partition('?')[2]}&row="

    def _draw_lines(self, row: stored.Row, shown: list[DiffColumn], mark: str) -> list[DiffRow]:
        line = self._line(row, shown, mark)
        return _split_line(line) if self.query.lines == TWO_LINES and row.change == "updated" else [line]

    def _lines_choices(self) -> list[Choice]:
        if not self.page.summary.get("updated"):
            return []
        kinds = ((ONE_LINE, "One line"), (TWO_LINES, "Two lines"))
        return [
            Choice(text, self._url(lines=value, **self._here), None, self.query.lines == value) for value, text in kinds
        ]

    def _blame(self, key: Mapping[str, Any]) -> str:
        if self.place.dataset_id is None or not key:
            return ""
        return blame_url(self.place.dataset_id, branch=self.place.branch, key=key)


def _expand(cell: stored.ValueDiff) -> ChangedValue | None:
    """Return what differs inside a value; None where its cell says all."""
    if cell.state != "changed" or cell.is_hidden:
        return None
    documents = [read_document(value) for value in (cell.before, cell.after)]
    if all(
        document is not None or value is None
        for document, value in zip(documents, (cell.before, cell.after), strict=True)
    ) and (lines := diff_documents(*documents)):
        return ChangedValue(cell.column.name, cell.column.type, [], [], lines)
    texts = [value if isinstance(value, str) else "" for value in (cell.before, cell.after)]
    if max(map(len, texts)) <= SHORT_TEXT:
        return None
    before, after = diff_words(*texts)
    return ChangedValue(cell.column.name, cell.column.type, before, after, [])


def _draw_head(column: DiffColumn) -> ColumnHead:
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
    equal = None if column.is_key else column.match_rate
    note = " · ".join(parts)
    return ColumnHead(column.name, note, column.is_key, column.is_number, column.state, equal, column.is_hidden)


def _split_line(line: DiffRow) -> list[DiffRow]:
    """Return a changed row as two lines; what is said of the row stands below the second, which has its number."""
    before = [_take_side(cell, "deleted") for cell in line.cells]
    after = [_take_side(cell, "inserted") for cell in line.cells]
    return [
        replace(line, n=0, css="rm pair", sign="−", word="was", cells=before, copies=1),
        replace(line, css="ins pair", sign="+", word="now", cells=after, url="", mark="", link=""),
    ]


def _take_side(cell: Cell, side: str) -> Cell:
    if cell.state == "changed":
        return replace(cell, state=side, delta=None)
    is_lacking = cell.state in ("inserted", "deleted") and cell.state != side
    return replace(cell, state="none") if is_lacking else cell


def _draw_cell(cell: stored.ValueDiff) -> Cell:
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
    whole = [str(value) for value in (cell.before, cell.after) if value is not None] if is_short else []
    title = " → ".join(whole if cell.state == "changed" else whole[-1:])
    delta = _shorten(cell.delta) if cell.delta else None
    css = " ".join(marks)
    return Cell(cell.state, before, after, delta, css, column.is_key, column.is_number, title, cell.is_hidden)


EXECUTORS = {"embedded": "the embedded engine", "spark": "Spark"}


def describe_engine(summary: Mapping[str, Any]) -> str:
    """Return what compared the rows and why, how many files it read and how long it took."""
    name = str(summary.get("executor", "embedded"))
    why = summary.get("executor_reason") or ""
    text = f"Compared by {EXECUTORS.get(name, name)}{f' ({why})' if why else ''}"
    files, size = summary.get("files_read"), summary.get("bytes_read")
    if isinstance(files, int) and isinstance(size, int):
        text += f": {count_differing(files)}, {filesize(size)}"
    seconds = sum((summary.get("timings_s") or {}).values())
    return f"{text}, in {seconds:.1f} s." if seconds else f"{text}."


def _write(value: Any, kind: str | None) -> Any:
    """Write times and floating point numbers as people do; API and exports keep every digit."""
    if isinstance(value, str) and kind and kind.startswith("timestamp"):
        return value.replace("T", " ", 1).replace("+00:00", "Z")
    if isinstance(value, float) and len(repr(value)) > FLOAT_DIGITS + 2 and math.isfinite(value):
        return f"{value:.{FLOAT_DIGITS}g}".replace("-", "−", 1) if value < 0 else f"{value:.{FLOAT_DIGITS}g}"
    return value


def _shorten(delta: str) -> str:
    """Write a difference with as many digits as say something; it is signed."""
    return (
        f"{float(delta):+.4g}".replace("-", "−", 1)
        if "." in delta and len(delta) > DELTA_LENGTH
        else delta.replace("-", "−", 1)
    )
