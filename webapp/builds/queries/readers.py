"""Whose code reads a dataset, on any branch, and which columns of it as far as its text tells."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Count, Min

from webapp.builds.models import CodeColumns, PublishedInput, PublishedOutput
from webapp.builds.rules.columns import InputColumns, SpecColumns

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.builds.models import PublishedSpec

INTERNAL = "_"
"""With this the names of branches begin that people may not make: of jobs, reviews and the merge queue."""


@dataclass(frozen=True)
class CodeReader:
    """A transform that reads a dataset by one and the same code, on one branch or several."""

    path: str
    """The dataset."""
    repository: str
    function: str
    digest: str
    spec: int
    """One of its JobSpecs."""
    branches: int
    branch: str
    """The first of them by name."""


def list_readers(paths: Collection[str], *, besides: QuerySet[PublishedSpec], most: int) -> list[CodeReader]:
    """Return the transforms that read some of these datasets on any branch of people, each of its codes apart.

    Args:
        paths: the datasets.
        besides: JobSpecs that do not count.
        most: so many are enough.

    """
    rows = PublishedInput.objects.filter(path__in=paths).exclude(branch__startswith=INTERNAL)
    groups = (
        rows.exclude(spec__in=besides.values("pk"))
        .values("path", "spec__repository__name", "spec__function", "spec__digest")
        .annotate(spec=Min("spec"), branches=Count("branch", distinct=True), first=Min("branch"))
        .order_by("path", "spec__repository__name", "spec__function", "spec__digest")
    )
    return [
        CodeReader(
            path=group["path"],
            repository=group["spec__repository__name"],
            function=group["spec__function"],
            digest=group["spec__digest"],
            spec=group["spec"],
            branches=group["branches"],
            branch=group["first"],
        )
        for group in groups[:most]
    ]


def read_columns(digests: Collection[str]) -> dict[str, SpecColumns]:
    """Return what the code of these digests says of columns; one that nobody has looked at is left out."""
    rows = CodeColumns.objects.filter(digest__in=set(digests))
    return {row.digest: _read(row) for row in rows}


def _read(row: CodeColumns) -> SpecColumns:
    inputs = {path: InputColumns(tuple(entry["columns"]), entry["is_listed"]) for path, entry in row.inputs.items()}
    return SpecColumns(inputs, None if row.words is None else frozenset(row.words))


def list_made_by(specs: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return what each of these JobSpecs makes."""
    outputs: dict[int, tuple[str, ...]] = {}
    rows = PublishedOutput.objects.filter(spec__in=specs).order_by("path")
    for spec, path in rows.values_list("spec_id", "path"):
        outputs[spec] = (*outputs.get(spec, ()), path)
    return outputs


def find_readers_on(
    readers: Collection[CodeReader], branches: Collection[str], *, besides: QuerySet[PublishedSpec]
) -> Mapping[tuple[str, str, str], set[str]]:
    """Return on which of these branches each reader is, by its repository, function and digest.

    Args:
        readers: whom `list_readers` has listed.
        branches: where to look.
        besides: JobSpecs that do not count.

    """
    rows = PublishedInput.objects.filter(
        path__in={reader.path for reader in readers},
        spec__digest__in={reader.digest for reader in readers},
        branch__in=branches,
    ).exclude(spec__in=besides.values("pk"))
    on: dict[tuple[str, str, str], set[str]] = {}
    for repository, function, digest, branch in rows.values_list(
        "spec__repository__name", "spec__function", "spec__digest", "branch"
    ):
        on.setdefault((repository, function, digest), set()).add(branch)
    return on
