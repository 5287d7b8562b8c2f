"""The pages that load a file: where it goes, what is in it, and how it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.urls import reverse

from webapp.accounts import permissions
from webapp.accounts.models import Folder
from webapp.builds.queries import chains, drafts
from webapp.builds.rules.files import CSV, DELIMITERS, FileForm, list_types
from webapp.builds.runner import paths
from webapp.core import names
from webapp.core.errors import InvalidInput, PermissionDenied
from webapp.datasets import queries as datasets
from webapp.datasets.queries.history import list_names
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.builds.models import Job
    from webapp.core.principals import Principal

MOST_CHOICES = 50


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a file goes, as its sender says."""

    path: str = ""
    branch: str = ""
    mode: str = "snapshot"


@dataclass(frozen=True, slots=True)
class UploadPage:
    """The first step: which file, into which dataset."""

    nav: str
    path: str
    branch: str
    paths: Sequence[str]
    """Datasets to choose from."""
    is_known: bool
    """Whether the dataset is there."""
    refusal: str
    """Why the reader may load nothing into it; empty when they may."""
    problem: str


@dataclass(frozen=True, slots=True)
class UploadColumn:
    """One column of a file."""

    name: str
    type: str
    """By the first rows."""
    chosen: str
    types: Sequence[str]
    """To choose from; none where it stays as it is."""


@dataclass(frozen=True, slots=True)
class CheckPage:
    """The second step: the columns, the branch and what becomes of the rows that are there."""

    nav: str
    draft: drafts.Draft
    path: str
    is_known: bool
    branch: str
    branches: Sequence[str]
    master_refusal: str
    """Why the reader may not load it into master; empty when they may."""
    mode: str
    columns: Sequence[UploadColumn]
    sample: drafts.DraftSample
    delimiter: str
    delimiters: Sequence[tuple[str, str]]
    has_header: bool
    is_csv: bool
    problem: str


def read_upload_page(principal: Principal, destination: Destination, *, problem: str = "") -> UploadPage:
    """Return the first step; a dataset that is named must be the reader's to see, or not be there yet."""
    path = destination.path
    is_known = _find_visible(principal, path)
    return UploadPage(
        nav="datasets",
        path=path,
        branch=destination.branch,
        paths=[dataset.path for dataset in datasets.list_datasets(principal)[:MOST_CHOICES]] if not is_known else (),
        is_known=is_known,
        refusal=_find_refusal(principal, path),
        problem=problem,
    )


def read_check_page(
    principal: Principal, draft: drafts.Draft, destination: Destination, form: FileForm, *, problem: str
) -> CheckPage:
    """Return the second step, with the beginning of the file as it would be read."""
    path = destination.path
    is_known = _find_visible(principal, path)
    sample = drafts.read_sample(draft, form)
    refusal = _find_refusal(principal, path, names.MASTER)
    branch = destination.branch or names.MASTER
    return CheckPage(
        nav="datasets",
        draft=draft,
        path=path,
        is_known=is_known,
        branch=f"{principal.username}/upload" if refusal and branch == names.MASTER else branch,
        branches=_list_branches(path, may_master=not refusal) if is_known else (),
        master_refusal=refusal,
        mode=destination.mode,
        columns=[
            UploadColumn(name, kind, form.types.get(name, ""), list_types(kind, draft.format))
            for name, kind in sample.columns
        ],
        sample=sample,
        delimiter=form.delimiter,
        delimiters=[("", f"found: {DELIMITERS.get(sample.delimiter, 'comma')}"), *DELIMITERS.items()],
        has_header=form.has_header,
        is_csv=draft.format == CSV,
        problem=problem,
    )


def _find_visible(principal: Principal, path: str) -> bool:
    """Return whether a dataset is there. The number of one is no path.

    Raises:
        NotFound: it is, and not for this reader.

    """
    if not path.startswith("/") or datasets.find_dataset(path) is None:
        return False
    datasets.get_dataset(principal, path)
    return True


def _find_refusal(principal: Principal, path: str, branch: str | None = None) -> str:
    """Return why somebody may not write a dataset, which need not be there; a folder that nobody claimed is anybody's.

    Raises:
        NotFound: the folder is another's.

    """
    try:
        folder = names.folder_of(path)
    except InvalidInput:
        return ""  # whoever sends a file hears what is wrong with the path
    if not Folder.objects.filter(name__iexact=folder).exists():
        return ""
    try:
        permissions.check_dataset(principal, path, "write", branch)
    except PermissionDenied as error:
        return error.detail
    return ""


def _list_branches(path: str, *, may_master: bool) -> list[str]:
    """Return the branches that a file may go to: the dataset's, then those of the repository's code."""
    dataset = datasets.find_dataset(path)
    own = [] if dataset is None else list_names(dataset)
    repository = chains.find_repository(paths=[path], branch=names.MASTER)
    others = repositories.list_branch_names(repository) if repository else []
    listed = dict.fromkeys([*own, *others])
    return [name for name in listed if may_master or name != names.MASTER][:MOST_CHOICES]


def find_draft_url(principal: Principal, job: Job) -> str:
    """Return where the sender of a file that could not be loaded says how else it is read; empty where nothing is left."""
    upload = job.upload or {}
    file = upload.get("draft")
    if not file or job.build.by_id != principal.user_id or not (paths.uploads_folder() / file).exists():
        return ""
    token = drafts.sign_draft(file=file, name=job.file, file_format=upload["format"], by=principal)
    output = job.outputs.all()[0]
    parameters = {
        "dataset": output.path,
        "branch": job.build.branch,
        "mode": upload["mode"],
        "delimiter": upload["delimiter"],
        "header": int(upload["has_header"]),
        **{f"type.{column}": kind for column, kind in upload["types"].items()},
    }
    return f"{reverse('upload-check', args=[token])}?{urlencode(parameters)}"
