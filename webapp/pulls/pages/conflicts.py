"""The page on which files that conflict are settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from webapp.core.errors import Conflict
from webapp.git.conflicts import ConflictedFile
from webapp.git.entries import find_table, name_entries
from webapp.pulls.forms import EACH
from webapp.pulls.pages.head import PullHead, frame, load, read_head
from webapp.pulls.queries.conflicts import read_conflicts
from webapp.repositories.pages.text import find_language
from webapp.repositories.rules.texts import explain_read_only

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.forms import Settlement

MAX_TEXT = 2_000_000
"""Characters of all files that are shown to be edited; of those beyond it a side is taken."""
MOST_PLACES = 200
"""Of a file, each with a choice of its own."""
BY_HAND = "hand"


@dataclass(frozen=True)
class PlaceView:
    """One place of a file at which both sides have changed something, with what its reader has chosen so far."""

    name: str
    """The table and the keys of a TOML file; of others the line."""
    ours: str
    theirs: str
    take: str


@dataclass(frozen=True)
class ConflictView:
    """One file that conflicts, with what its reader has chosen so far."""

    path: str
    ours: str
    """What it is on the source: file, folder, symlink, submodule; empty where there is none."""
    theirs: str
    """What it is on the target."""
    clashes: int
    places: list[PlaceView]
    """Those of a text that is not too long to be shown and has not too many."""
    mark: int
    """How long the marks in the text are."""
    content: str
    """To be edited; empty if it is not text, or cannot be edited."""
    read_only: str
    """Why it cannot be edited, if that is not for its length."""
    ends: str
    """crlf where the lines of the file end so; browsers always send them."""
    language: str
    take: str


@dataclass(frozen=True)
class ConflictsPage:
    """Context of the page."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    source_sha: str
    target_sha: str
    files: list[ConflictView]
    refusal: str
    """Why nothing can be settled here; empty where it can."""


def read_page(principal: Principal, repository: str, number: int, *, chosen: Mapping[str, Settlement]) -> ConflictsPage:
    """Return the files that conflict, each with what was chosen for its path."""
    loaded = load(principal, repository, number)
    head = read_head(principal, loaded)
    page = ConflictsPage(
        **frame(repository), head=head, tab="Conflicts", source_sha="", target_sha="", files=[], refusal=""
    )
    try:
        conflicts = read_conflicts(loaded.pull)
    except Conflict as error:
        return replace(page, refusal=error.detail)
    files, left = [], MAX_TEXT
    for file in conflicts.files:
        text = _write_text(file, head)
        read_only = explain_read_only(text.encode())
        left -= len(text)
        files.append(_view(file, text if left >= 0 else "", read_only, chosen.get(file.path)))
    return replace(page, source_sha=conflicts.head, target_sha=conflicts.target_head, files=files)


def _write_text(file: ConflictedFile, head: PullHead) -> str:
    """Return the text with marks that name the branches, which people know, rather than commits."""
    return replace(file.marks, ours=head.source, theirs=head.target).write(file.segments)


def _view(file: ConflictedFile, text: str, read_only: str, settlement: Settlement | None) -> ConflictView:
    editable = "" if read_only else text
    take = BY_HAND if editable else ""
    offered = {BY_HAND: bool(editable), EACH: bool(text)}
    if settlement is not None and offered.get(settlement.take, True):
        take = settlement.take
    return ConflictView(
        path=file.path,
        ours=file.ours.kind if file.ours else "",
        theirs=file.theirs.kind if file.theirs else "",
        clashes=file.clashes,
        places=_list_places(file, settlement.takes if settlement else ())
        if text and file.clashes <= MOST_PLACES
        else [],
        mark=file.marks.size,
        content=settlement.content if editable and settlement is not None else editable,
        read_only=read_only,
        ends="crlf" if "\r\n" in text else "",
        language=find_language(file.path),
        take=take,
    )


def _list_places(file: ConflictedFile, takes: Sequence[str]) -> list[PlaceView]:
    places: list[PlaceView] = []
    line, table = 1, ""
    for segment in file.segments:
        if isinstance(segment, str):
            line += segment.count("\n")
            table = find_table(segment) or table
            continue
        name = name_entries(table, segment.ours, segment.theirs) if file.path.endswith(".toml") else ""
        take = takes[len(places)] if len(places) < len(takes) else ""
        places.append(PlaceView(name or f"line {line}", segment.ours, segment.theirs, take))
        line += segment.ours.count("\n")
        table = find_table(segment.ours) or table
    return places
