"""Who may see a preview, and the rows of its outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from webapp.comparisons.diffs import reader
from webapp.core.errors import Conflict, Gone, NotFound
from webapp.dispatch.logs import LogReader
from webapp.previews.models import CodePreview
from webapp.previews.rules.states import PreviewState
from webapp.repositories import permissions
from webapp.repositories.services import FileDraft
from webapp.sql.queries import DifferentRow, can_read_tables, pair_sides

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.dispatch.log_lines import LogLine
    from webapp.repositories.models import Repository

RESULT = "result"
"""The folder of what is kept, in that of the preview."""
MOST_LINES = 200
"""Of a log."""


def list_previews(principal: Principal, repository: Repository) -> QuerySet[CodePreview]:
    """Return the previews that somebody asked for in a repository, newest first.

    Raises:
        PermissionDenied: they may not write to the repository, or not any more.

    """
    permissions.check_write(principal, repository)
    own = CodePreview.objects.filter(repository=repository, by=principal.user_id)
    return own.select_related("by", "repository").defer("drafts", "commit_fields").order_by("-created_at", "-pk")


def get_preview(principal: Principal, repository: Repository, number: int) -> CodePreview:
    """Return somebody's own preview; who may not read what it has read any more does not see it.

    Raises:
        NotFound: there is none for this reader.

    """
    preview = list_previews(principal, repository).defer(None).filter(pk=number).first()
    if preview is None or not can_read_tables(principal, branch=preview.branch, tables=preview.tables):
        message = f"{repository.name} has no preview {number} of yours: it is over, or you may not read what it read."
        raise NotFound(message)
    return preview


def list_drafts(preview: CodePreview) -> list[FileDraft]:
    """Return the changed files of a preview; the one that was open comes first."""
    return [FileDraft(**draft) for draft in preview.drafts]


def result_folder(preview: CodePreview) -> Path:
    """Return where what came of a preview lies."""
    return previews_folder() / str(preview.pk)


def previews_folder() -> Path:
    """Return the folder of all previews."""
    return Path(settings.TRIBUTARY_HOME) / "previews"


def read_log(preview: CodePreview) -> list[LogLine]:
    """Return the first lines that the transforms have written so far."""
    log = LogReader(result_folder(preview) / "log")
    try:
        return log.read(limit=MOST_LINES)
    finally:
        log.close()


def list_outputs(preview: CodePreview) -> Sequence[Mapping[str, Any]]:
    """Return what is known of the outputs that were written."""
    outputs: Sequence[Mapping[str, Any]] = preview.summary.get("outputs", ())
    return outputs


def find_output(preview: CodePreview, path: str) -> tuple[int, Mapping[str, Any]]:
    """Return an output of a preview with its number; the first one where none is named.

    Raises:
        Conflict: there is none yet.
        NotFound: it has another one.

    """
    if not preview.state.is_over or (preview.state != PreviewState.READY and not list_outputs(preview)):
        message = f"Preview {preview.pk} is {preview.state.label.lower()}: it has no rows."
        raise Conflict(message, code="not_ready")
    for number, output in enumerate(list_outputs(preview)):
        if path in ("", output["path"]):
            return number, output
    message = f"Preview {preview.pk} has written nothing to {path or 'any dataset'}."
    raise NotFound(message)


def read_rows(
    preview: CodePreview, number: int, output: Mapping[str, Any], *, start: int, limit: int
) -> list[list[Any]]:
    """Return a page of the rows of an output, each a list in the order of its columns.

    Raises:
        Conflict: they are damaged.
        Gone: they have been removed.
        Unavailable: they cannot be read now.

    """
    lines = _read_lines(preview, f"rows-{number}.parquet", start, limit) if output["rows"] else []
    return [[line[f"c{place}"] for place in range(len(output["columns"]))] for line in lines]


def get_difference(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how an output differs from what the committed code writes from the same rows.

    Raises:
        Conflict: it is compared with nothing.

    """
    difference: Mapping[str, Any] | None = output["difference"]
    if difference is None:
        raise Conflict(output["why_not_compared"], code="not_compared")
    return difference


def read_difference(
    preview: CodePreview, number: int, difference: Mapping[str, Any], *, start: int, limit: int
) -> list[DifferentRow]:
    """Return a page of the rows that differ.

    Raises:
        Conflict: they are damaged.
        Gone: they have been removed.
        Unavailable: they cannot be read now.

    """
    if not difference["lines"]:
        return []
    lines = _read_lines(preview, f"difference-{number}.parquet", start, limit)
    return pair_sides(lines, width=len(difference["shown"]))


def _read_lines(preview: CodePreview, name: str, start: int, limit: int) -> list[reader.Line]:
    path = result_folder(preview) / RESULT / name
    if not path.exists():
        message = f"The rows of preview {preview.pk} have been removed. Preview the code again."
        raise Gone(message, code="expired")
    return reader.read_slice(path, start, limit)
