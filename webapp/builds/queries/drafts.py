"""Files that were sent and wait for their sender to say how and where they are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core import signing

from webapp.builds.rules.files import FileForm, explain_unread
from webapp.builds.runner import paths
from webapp.catalog.storage.reader import TableReader
from webapp.core.errors import NotFound
from webapp.runtime.readers import ReadFailed

if TYPE_CHECKING:
    from webapp.core.principals import Principal

SALT = "webapp.builds.drafts"
KEPT_SECONDS = 24 * 3600
"""As long as the sweep leaves staged files alone."""
SHOWN_ROWS = 12
MOST_ANSWER_BYTES = 4 * 1024 * 1024
SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Draft:
    """A file in the uploads folder that nothing has been done with yet."""

    token: str
    path: Path
    name: str
    """What its sender calls it."""
    format: str
    size: int


@dataclass(frozen=True, slots=True)
class DraftSample:
    """The beginning of a file, as the sandbox reads it."""

    columns: Sequence[tuple[str, str]] = ()
    """Names and types."""
    rows: Sequence[Sequence[str | None]] = ()
    delimiter: str = ""
    warnings: Sequence[str] = ()
    """What cannot be kept of these rows."""
    problem: str = ""
    """Why there is none."""


def sign_draft(*, file: str, name: str, file_format: str, by: Principal) -> str:
    """Return the token by which the sender of a file, and nobody else, goes on with it."""
    return signing.dumps({"file": file, "name": name, "format": file_format, "user": by.user_id}, salt=SALT)


def get_draft(principal: Principal, token: str) -> Draft:
    """Return the file that somebody sent.

    Raises:
        NotFound: it is another's, or not there any more.

    """
    draft = _read_token(token)
    path = paths.uploads_folder() / draft.get("file", "")
    if draft.get("user") != principal.user_id or not path.exists():
        raise NotFound("This file is not here any more: it was loaded, or its day is over. Choose it again.")
    return Draft(token, path, draft["name"], draft["format"], path.stat().st_size)


def _read_token(token: str) -> dict[str, Any]:
    """Return what `sign_draft` wrote; nothing where somebody else did, or too long ago."""
    try:
        draft: dict[str, Any] = signing.loads(token, salt=SALT, max_age=KEPT_SECONDS)
    except signing.BadSignature:
        return {}
    return draft


def read_sample(draft: Draft, form: FileForm) -> DraftSample:
    """Return the beginning of a file; it is read in the sandbox, nothing of it is decoded here."""
    try:
        with TableReader(
            draft.path.parent.as_uri(), reads="rows", seconds=SECONDS, most_answer_bytes=MOST_ANSWER_BYTES
        ) as reader:
            answer = reader.ask(
                ask="sample",
                location=draft.path.as_uri(),
                format=draft.format,
                shown=SHOWN_ROWS,
                delimiter=form.delimiter,
                has_header=form.has_header,
            )
    except ReadFailed as error:
        return DraftSample(problem=explain_unread(str(error)))
    if "problem" in answer:
        return DraftSample(problem=str(answer["problem"]))
    return DraftSample(
        [(str(name), str(kind)) for name, kind in answer["columns"]],
        answer["rows"],
        answer["delimiter"],
        warnings=[f"{str(warning)[:1].upper()}{str(warning)[1:]}." for warning in answer["warnings"]],
    )
