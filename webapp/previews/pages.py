"""What stands beside the editor: how a preview goes, and what came of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.comparisons.diffs.schema import SchemaDiff, diff_schemas
from webapp.comparisons.pages.rows import ColumnHead, DiffTable, make_table
from webapp.core.errors import AppError
from webapp.core.numbered import NumberedPage
from webapp.previews import queries
from webapp.repositories import queries as repositories
from webapp.repositories.pages.editor import edit_page
from webapp.repositories.services import FileDraft
from webapp.sql.pages import ResultColumn, draw_row, list_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webapp.core.principals import Principal
    from webapp.dispatch.log_lines import LogLine
    from webapp.previews.models import CodePreview
    from webapp.repositories.models import Repository
    from webapp.repositories.pages.editor import EditPage

PAGE_SIZE = 25


@dataclass(frozen=True, slots=True)
class OutputLink:
    """An output, to choose."""

    path: str
    url: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class CodeProblem:
    """Something that is wrong with the code."""

    file: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class RowsPart:
    """A page of rows."""

    text: str
    previous_url: str
    next_url: str
    problem: str = ""
    columns: Sequence[ResultColumn] = ()
    rows: Sequence[Sequence[tuple[Any, bool]]] = ()
    """Each value with whether it is set flush right."""
    table: DiffTable | None = None
    """Instead, where rows differ."""


@dataclass(frozen=True, slots=True)
class OutputPart:
    """What was written to one dataset."""

    path: str
    facts: Mapping[str, Any]
    rows: RowsPart
    schema: SchemaDiff | None
    difference: RowsPart | None


@dataclass(frozen=True, slots=True)
class PreviewPart:
    """A preview and what came of it."""

    preview: CodePreview
    repository: Repository
    url: str
    is_over: bool
    problems: Sequence[CodeProblem]
    problems_json: str
    """Those of the file that was previewed, for the editor: each with its line and what that said."""
    outputs: Sequence[OutputLink]
    output: OutputPart | None
    inputs: Sequence[Mapping[str, Any]]
    are_whole: bool
    """Whether all of all inputs was read: all rows, and no column NULL in their place."""
    skipped: Sequence[Mapping[str, str]]
    log: Sequence[LogLine]
    is_log_cut: bool


def read_preview(preview: CodePreview, *, output: str = "", places: Mapping[str, int]) -> PreviewPart:
    """Return what came of a preview so far.

    Args:
        preview: what was run.
        output: which dataset is shown; the first one where it is none of them.
        places: by the name of its parameter, the page of each list of rows.

    """
    outputs = queries.list_outputs(preview)
    paths = [str(facts["path"]) for facts in outputs]
    chosen = output if output in paths else next(iter(paths), "")
    problems = preview.summary.get("problems", ())
    log = queries.read_log(preview)
    tables = preview.tables
    return PreviewPart(
        preview=preview,
        repository=preview.repository,
        url=_address(preview),
        is_over=preview.state.is_over,
        problems=[CodeProblem(**problem) for problem in problems],
        problems_json=json.dumps(_place_problems(preview, problems)),
        outputs=[OutputLink(path, _address(preview, output=path), path == chosen) for path in paths],
        output=_read_output(preview, chosen, places) if chosen else None,
        inputs=tables,
        are_whole=bool(tables) and all(table.get("is_whole") and not table["masked"] for table in tables),
        skipped=preview.summary.get("skipped", ()),
        log=log,
        is_log_cut=len(log) == queries.MOST_LINES,
    )


def read_editor(principal: Principal, preview: CodePreview) -> EditPage:
    """Return the editor of the file that was previewed, on its branch; a file that is gone is new."""
    draft = find_open(preview)
    is_there = bool(draft.path) and repositories.find_kind(preview.repository, preview.head, draft.path) == "file"
    mode, path = ("edit", draft.path) if is_there else ("new", draft.target.rpartition("/")[0])
    return edit_page(principal, preview.repository, preview.branch, path, mode=mode, head=preview.head)


def find_open(preview: CodePreview) -> FileDraft:
    """Return the file that the editor has open: the previewed one, as it was typed, or as the commit has it."""
    drafts = {draft.target: draft for draft in queries.list_drafts(preview)}
    if preview.file in drafts:
        return drafts[preview.file]
    text = repositories.read_blob(preview.repository, preview.head, preview.file).text
    return FileDraft(preview.file, preview.file, text)


def _place_problems(preview: CodePreview, problems: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the problems of the previewed file with the text of their lines: they count as long as it is the same."""
    draft = next((draft for draft in queries.list_drafts(preview) if draft.target == preview.file), None)
    lines = draft.text.replace("\r\n", "\n").split("\n") if draft else []
    return [
        {"line": problem["line"], "message": problem["message"], "text": lines[problem["line"] - 1]}
        for problem in problems
        if problem["file"] == preview.file and 1 <= problem["line"] <= len(lines)
    ]


def _address(preview: CodePreview, **parameters: str) -> str:
    address = reverse("preview", args=[preview.repository.name, preview.pk])
    return f"{address}?{urlencode(parameters)}" if parameters else address


@dataclass(frozen=True, slots=True)
class _PreviewTurner:
    """The pages of one of the lists of an output: the other stays where it is."""

    preview: CodePreview
    output: str
    parameter: str
    places: Mapping[str, int]

    def choose(self, total: int) -> NumberedPage:
        """Return the page that is shown."""
        return NumberedPage.choose(self.places.get(self.parameter, 1), size=PAGE_SIZE, total=total)

    def link(self, number: int) -> str:
        """Return the address of another page."""
        places = {name: str(place) for name, place in {**self.places, self.parameter: number}.items() if place > 1}
        return _address(self.preview, output=self.output, **places)


def _read_output(preview: CodePreview, path: str, places: Mapping[str, int]) -> OutputPart:
    number, facts = queries.find_output(preview, path)
    schema = facts["schema"]
    return OutputPart(
        path=path,
        facts=facts,
        rows=_read_rows(preview, number, facts, _PreviewTurner(preview, path, "page", places)),
        schema=diff_schemas(facts["before_schema"], schema) if schema else None,
        difference=_read_difference(preview, number, facts, _PreviewTurner(preview, path, "difference_page", places))
        if facts["difference"]
        else None,
    )


def _read_rows(preview: CodePreview, number: int, facts: Mapping[str, Any], turner: _PreviewTurner) -> RowsPart:
    columns, part = list_columns(facts), turner.choose(facts["rows"])
    rows, problem = [], ""
    try:
        rows = queries.read_rows(preview, number, facts, start=part.start, limit=PAGE_SIZE)
    except AppError as error:
        problem = error.detail
    return RowsPart(
        text=part.text,
        previous_url=part.link_previous(turner.link),
        next_url=part.link_next(turner.link),
        problem=problem,
        columns=columns,
        rows=[[(value, column.is_number) for value, column in zip(row, columns, strict=True)] for row in rows],
    )


def _read_difference(preview: CodePreview, number: int, facts: Mapping[str, Any], turner: _PreviewTurner) -> RowsPart:
    difference = facts["difference"]
    part, keys = turner.choose(difference["lines"]), set(difference["key"].split(", "))
    rows, problem = [], ""
    try:
        rows = queries.read_difference(preview, number, difference, start=part.start, limit=PAGE_SIZE)
    except AppError as error:
        problem = error.detail
    heads = [
        ColumnHead(column.name, column.type.lower(), column.name in keys, column.is_number, "")
        for column in list_columns({"columns": difference["shown"]})
    ]
    return RowsPart(
        text=part.text,
        previous_url=part.link_previous(turner.link),
        next_url=part.link_next(turner.link),
        problem=problem,
        table=make_table(heads, [draw_row(row, heads, part.start + place) for place, row in enumerate(rows, 1)]),
    )
