"""The graph of what a pull request changes and what is downstream of it, across repositories, from what is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.accounts import permissions
from webapp.builds import queries as builds
from webapp.builds.models import JobOutput
from webapp.builds.rules.columns import InputColumns, SpecColumns
from webapp.builds.rules.states import JobState
from webapp.comparisons.diffs.schema import diff_artifact
from webapp.comparisons.queries.counts import RowCounts
from webapp.comparisons.rules.states import NOT_COMPARED
from webapp.datasets import queries as datasets
from webapp.datasets.models import Dataset
from webapp.pulls.queries.breaks import Breaks, read_breaks
from webapp.pulls.queries.named import find_shown
from webapp.pulls.rules.lineage import ChosenNodes, NodeBuild, choose_nodes, judge_build
from webapp.pulls.rules.states import CHANGED, REFRESHED, PullState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from webapp.builds.models import Build
    from webapp.builds.queries.planning import Maker
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullDataset, PullRequest

MAX_NODES = 150
"""More than these nobody can read, and no browser draws at once."""
MAX_WALKED = 600
"""Downstream datasets that are looked at, those that the reader may not see among them."""


@dataclass(frozen=True)
class NodeSchema:
    """What became of the schema of a dataset."""

    status: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadInput:
    """A dataset of the graph that another one is made from."""

    path: str
    columns: tuple[str, ...]
    """Those that the code asks for by name."""
    is_listed: bool
    """Whether that is all that it reads of it; else it may read others, too."""


@dataclass(frozen=True)
class PullLineageNode:
    """One dataset of the graph."""

    path: str
    dataset_id: int | None
    change: str | None
    """How the pull request changes it; None for what is downstream in another repository."""
    repository: str
    function: str
    branch: str
    """Where its JobSpec was found; empty, as the two before, for what no JobSpec makes."""
    build: NodeBuild
    build_id: int | None
    """The newest build of the source, where that has a job for it."""
    schema: NodeSchema
    rows: RowCounts
    inputs: tuple[ReadInput, ...]
    """Those that the graph shows."""
    hidden_inputs: int
    """How many of the others that the pull request changes or affects the reader may not see."""
    columns: tuple[builds.MadeColumn, ...]
    """Those that the source's rows have of which it is known what they are made of."""


@dataclass(frozen=True)
class PullGraph:
    """The graph of a pull request."""

    nodes: tuple[PullLineageNode, ...]
    hidden: int
    """Datasets, changed or downstream, that the reader may not see."""
    is_cut: bool
    """Whether there are more than are shown."""
    breaks: Breaks


def read_lineage(
    principal: Principal, pull: PullRequest, *, rows: Sequence[PullDataset], build: Build | None
) -> PullGraph:
    """Return the graph of a pull request.

    Args:
        principal: who reads it.
        pull: the pull request.
        rows: its datasets that the reader may see, with their comparisons.
        build: the newest build of the source.

    """
    rows = sorted(rows, key=lambda row: (row.change not in CHANGED, row.path))
    changes = dict(pull.datasets.values_list("path", "change"))
    # what the branch only rebuilt affects nothing
    seeds = [path for path, change in changes.items() if change != REFRESHED]
    # of one that is over the branch may be gone, or be another one
    branch = pull.source if pull.state == PullState.OPEN else pull.target
    chain = builds.default_chain(repository=pull.repository, branch=branch)
    below = builds.list_below(seeds, chain, most=MAX_WALKED)
    hidden = {*(changes.keys() - {row.path for row in rows}), *permissions.list_hidden(principal, below)}
    chosen = choose_nodes(
        [row.path for row in rows], below, hidden=hidden, is_complete=len(below) < MAX_WALKED, most=MAX_NODES
    )
    return PullGraph(
        nodes=_read_nodes(principal, pull, chosen, chain, rows=rows, hidden=hidden, build=build),
        hidden=len(hidden),
        is_cut=chosen.is_cut,
        breaks=read_breaks(principal, pull, rows),
    )


def _read_nodes(
    principal: Principal,
    pull: PullRequest,
    chosen: ChosenNodes,
    chain: Sequence[str],
    *,
    rows: Sequence[PullDataset],
    hidden: AbstractSet[str],
    build: Build | None,
) -> tuple[PullLineageNode, ...]:
    makers = _find_seen_makers(principal, chosen.paths, chain)
    code = builds.read_columns([maker.digest for maker in makers.values()])
    by_path = {row.path: row for row in rows}
    others = [path for path in chosen.paths if path not in by_path]
    own = datasets.list_transactions_made_on(branch=pull.source, folder_paths=others)
    ids = dict(Dataset.objects.filter(path__in=others).values_list("path", "pk"))
    jobs = _list_jobs(build, chosen.paths)
    columns = builds.read_made_columns(principal, [row.after_id for row in rows if row.after_id is not None])
    nodes = []
    for path in chosen.paths:
        maker, row, job = makers.get(path), by_path.get(path), jobs.get(path)
        beyond = NodeBuild.OWN_DATA if path in own else NodeBuild.UNTOUCHED
        nodes.append(
            PullLineageNode(
                path=path,
                dataset_id=row.dataset_id if row else ids.get(path),
                change=row.change if row else None,
                repository=maker.repository if maker else "",
                function=maker.function if maker else "",
                branch=maker.branch if maker else "",
                build=_judge_row(row, job) if row else beyond,
                build_id=build.pk if build and job is not None else None,
                schema=_read_schema(row) if row else NodeSchema(NOT_COMPARED),
                rows=find_shown(row).counts if row else RowCounts(NOT_COMPARED),
                inputs=_list_inputs(maker, code, chosen.paths),
                hidden_inputs=len(hidden & set(maker.inputs)) if maker else 0,
                columns=columns.get(row.after_id or "", ()) if row else (),
            )
        )
    return tuple(nodes)


def _find_seen_makers(principal: Principal, paths: Collection[str], chain: Sequence[str]) -> dict[str, Maker]:
    """Return what makes these datasets, where that lies in a repository that the reader may see."""
    repositories = permissions.visible_repositories(principal)
    makers = builds.find_makers(paths, chain)
    return {path: maker for path, maker in makers.items() if repositories is None or maker.repository in repositories}


def _list_jobs(build: Build | None, paths: Collection[str]) -> Mapping[str, JobState]:
    if build is None:
        return {}
    outputs = JobOutput.objects.filter(job__build=build, path__in=paths).select_related("job")
    return {output.path: output.job.state for output in outputs}


def _judge_row(row: PullDataset, job: JobState | None) -> NodeBuild:
    return judge_build(
        change=row.change,
        has_data=row.after_id is not None,
        is_current=row.current,
        is_rebuilt=row.is_rebuilt,
        job=job,
    )


def _read_schema(row: PullDataset) -> NodeSchema:
    comparison = row.comparison
    if comparison is None or not comparison.schema or row.schema_status == NOT_COMPARED:
        return NodeSchema(NOT_COMPARED)
    diff = diff_artifact(comparison.schema)
    added, removed, modified = (
        tuple(column.path for column in columns) for columns in (diff.added, diff.removed, diff.modified)
    )
    return NodeSchema(row.schema_status, added, removed, modified)


def _list_inputs(maker: Maker | None, code: Mapping[str, SpecColumns], shown: Collection[str]) -> tuple[ReadInput, ...]:
    if maker is None:
        return ()
    inputs = code[maker.digest].inputs if maker.digest in code else {}
    read = ((path, inputs.get(path, InputColumns())) for path in maker.inputs if path in shown)
    return tuple(ReadInput(path, columns.columns, columns.is_listed) for path, columns in read)
