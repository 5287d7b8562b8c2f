"""Whose code reads columns that a merge takes away: JobSpecs of all repositories, on any branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Q

from webapp.accounts import permissions
from webapp.builds import queries as builds
from webapp.builds.models import PublishedSpec
from webapp.builds.rules.freshness import read_digest
from webapp.comparisons.diffs.schema import diff_artifact
from webapp.comparisons.rules.states import BREAKING
from webapp.pulls.queries.pulls import read_specs
from webapp.pulls.rules.breaks import GoneColumns, judge_gone
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullDataset, PullRequest

MOST_READERS = 500
"""Transforms, each of its codes apart, that are looked at."""


@dataclass(frozen=True)
class BrokenReader:
    """A transform whose code reads columns that go."""

    path: str
    """The dataset that loses them."""
    gone: GoneColumns
    outputs: tuple[str, ...]
    """What the transform makes."""
    repository: str
    function: str
    branches: tuple[str, ...]
    """Some of the branches that have this code: the target and the source first."""
    others: int
    """How many more there are."""


@dataclass(frozen=True)
class Breaks:
    """What is known of the readers of columns that go."""

    columns: dict[str, tuple[str, ...]]
    """Dataset → those that go."""
    broken: tuple[BrokenReader, ...] = ()
    hidden: int = 0
    """Transforms that the reader may not see."""
    unknown: tuple[str, ...] = ()
    """Outputs of transforms of whose code too little is known."""
    others: int = 0
    """Transforms that read the datasets and whose code names none of the columns."""
    is_cut: bool = False
    """Whether more transforms read the datasets than were looked at."""


def list_gone(rows: Iterable[PullDataset]) -> dict[str, tuple[str, ...]]:
    """Return which columns of which datasets the merge takes away, by the comparison that every page shows first."""
    breaking = (row for row in rows if row.schema_status == BREAKING and row.lands and row.comparison is not None)
    gone = {row.path: diff_artifact(row.comparison.schema).gone for row in breaking if row.comparison}
    return {path: columns for path, columns in gone.items() if columns}


def read_breaks(principal: Principal, pull: PullRequest, rows: Iterable[PullDataset]) -> Breaks:
    """Return whose code reads columns that the merge of a pull request takes away.

    Args:
        principal: who reads it; of transforms that they may not see they learn how many there are.
        pull: the pull request; one that is over takes nothing away any more.
        rows: its datasets that the reader may see, with their comparisons.

    """
    columns = list_gone(rows) if pull.state == PullState.OPEN else {}
    if not columns:
        return Breaks({})
    replaced = _list_replaced(pull)
    readers = builds.list_readers(columns, besides=replaced, most=MOST_READERS + 1)
    is_cut, readers = len(readers) > MOST_READERS, readers[:MOST_READERS]
    code = builds.read_columns([reader.digest for reader in readers])
    judged = {
        reader: judge_gone(columns[reader.path], path=reader.path, code=code.get(reader.digest)) for reader in readers
    }
    concerned = [reader for reader in readers if not judged[reader].is_empty or not judged[reader].is_known]
    outputs = builds.list_made_by([reader.spec for reader in concerned])
    hidden = _list_hidden(principal, concerned, outputs)
    visible = [reader for reader in concerned if reader not in hidden]
    broken = {reader: judged[reader] for reader in visible if not judged[reader].is_empty}
    on = builds.find_readers_on(broken, (pull.target, pull.source), besides=replaced) if broken else {}
    unknown = {path for reader in visible if judged[reader].is_empty for path in outputs.get(reader.spec, ())}
    return Breaks(
        columns=columns,
        broken=_describe_broken(pull, broken, outputs, on),
        hidden=len({(reader.repository, reader.function) for reader in hidden}),
        unknown=tuple(sorted(unknown)),
        others=len({(reader.repository, reader.function) for reader in readers if reader not in concerned}),
        is_cut=is_cut,
    )


def _list_replaced(pull: PullRequest) -> QuerySet[PublishedSpec]:
    """Return the JobSpecs that the merge replaces: the target's, and where others have them as the source found them.

    Those branches get the new ones with the target's commits.
    """
    specs = read_specs(pull=pull)
    digests = {read_digest(specs.base_code[path]) for path in specs.changed_paths if path in specs.base_code}
    of_target = Q(branch=pull.target, outputs__path__in=specs.changed_paths)
    return PublishedSpec.objects.filter(of_target | Q(digest__in=digests), repository=pull.repository)


def _list_hidden(
    principal: Principal, readers: Sequence[builds.CodeReader], outputs: dict[int, tuple[str, ...]]
) -> set[builds.CodeReader]:
    """Return the transforms that somebody may not see: in a repository, or of a dataset, of others."""
    repositories = permissions.visible_repositories(principal)
    hidden = set(permissions.list_hidden(principal, sorted({path for paths in outputs.values() for path in paths})))
    return {
        reader
        for reader in readers
        if (repositories is not None and reader.repository not in repositories)
        or hidden.intersection(outputs.get(reader.spec, ()))
    }


def _describe_broken(
    pull: PullRequest,
    broken: Mapping[builds.CodeReader, GoneColumns],
    outputs: Mapping[int, tuple[str, ...]],
    on: Mapping[tuple[str, str, str], set[str]],
) -> tuple[BrokenReader, ...]:
    """Describe the transforms that read columns that go: those of the target first, and what is certain."""
    described = []
    for reader, gone in broken.items():
        here = on.get((reader.repository, reader.function, reader.digest), set())
        branches = tuple(branch for branch in (pull.target, pull.source) if branch in here) or (reader.branch,)
        described.append(
            BrokenReader(
                path=reader.path,
                gone=gone,
                outputs=outputs.get(reader.spec, ()),
                repository=reader.repository,
                function=reader.function,
                branches=branches,
                others=reader.branches - len(branches),
            )
        )
    return tuple(sorted(described, key=lambda reader: (pull.target not in reader.branches, not reader.gone.read)))
