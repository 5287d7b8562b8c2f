"""Published JobSpecs: as one branch sees them, and as a graph of datasets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.accounts import permissions as accounts
from webapp.builds.models import PublishedSpec
from webapp.builds.queries import chains, planning
from webapp.builds.rules import lineage
from webapp.builds.rules.plan import make_plan
from webapp.builds.rules.values import Request, Spec
from webapp.core import names
from webapp.core.errors import AppError
from webapp.datasets.models import Dataset
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from webapp.accounts.rules.principals import Principal


@dataclass(frozen=True, slots=True)
class LineageNode:
    """One dataset in the graph; `state` is source, fresh, stale or unknown."""

    path: str
    dataset_id: int | None
    depth: int
    """Steps from the dataset asked for: negative upstream, positive downstream."""
    state: str
    why: str
    function: str
    repository: str
    branch: str
    """Where its JobSpec was found; empty for a source."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a dataset is made from and what is made from it, as one branch sees it."""

    path: str
    branch: str
    chain: tuple[str, ...]
    nodes: tuple[LineageNode, ...]
    edges: tuple[tuple[str, str], ...]
    is_cut: bool


def list_jobspecs(*, repository: Repository, branch: str) -> list[PublishedSpec]:
    """Return the JobSpecs that a build on a branch would use: its own, then those of the chain for other outputs."""
    chain = chains.default_chain(repository=repository, branch=branch)
    rows = (
        PublishedSpec.objects.filter(repository=repository, branch__in=chain)
        .select_related("repository")
        .prefetch_related("outputs")
    )
    taken: set[str] = set()
    found: list[PublishedSpec] = []
    for each in chain:
        for row in (row for row in rows if row.branch == each):
            outputs = {output.path for output in row.outputs.all()}
            if not outputs <= taken:
                found.append(row)
        taken |= {output.path for row in rows if row.branch == each for output in row.outputs.all()}
    return sorted(found, key=lambda row: min(output["path"] for output in row.spec["outputs"]))


def read_lineage(principal: Principal, *, dataset: Dataset, branch: str) -> Lineage:
    """Return the graph around a dataset on a branch; datasets that the reader may not see are left out."""
    repository = chains.find_repository(paths=[dataset.path], branch=branch)
    chain = chains.default_chain(repository=repository, branch=branch)
    specs = planning.load_specs(branches=chain)
    graph = lineage.walk(specs=specs, chain=chain, path=dataset.path)
    visible = _filter_visible(principal, graph.depths)
    ids = dict(Dataset.objects.filter(path__in=visible).values_list("path", "pk"))
    freshness = _judge(specs, chain, [graph.makers[path] for path in visible if path in graph.makers])
    nodes = tuple(
        _describe(path, graph.depths[path], graph.makers.get(path), ids.get(path), freshness)
        for path in sorted(visible, key=lambda each: (graph.depths[each], each))
    )
    edges = tuple(edge for edge in graph.edges if edge[0] in visible and edge[1] in visible)
    return Lineage(path=dataset.path, branch=branch, chain=chain, nodes=nodes, edges=edges, is_cut=graph.is_cut)


def _filter_visible(principal: Principal, paths: Iterable[str]) -> set[str]:
    folders = accounts.visible_folders(principal)
    return {path for path in paths if folders is None or names.folder_of(path) in folders}


def judge(*, branch_specs: Sequence[PublishedSpec], chain: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return per output of these JobSpecs whether it is fresh (fresh, stale or unknown) and why."""
    return _judge(planning.load_specs(branches=chain), chain, [planning.read_spec(row) for row in branch_specs])


def _judge(specs: Sequence[Spec], chain: tuple[str, ...], makers: Sequence[Spec]) -> dict[str, tuple[str, str]]:
    """Return per output whether it is fresh and why; each job alone, so one that cannot be planned hides no other."""
    paths = {path for spec in makers for path in spec.paths}
    datasets = planning.load_datasets(paths=paths, branches=chain)
    judged: dict[str, tuple[str, str]] = {}
    for spec in makers:
        target = spec.outputs[0].path
        try:
            (job,) = make_plan(specs=specs, request=Request(chain=chain, targets=(target,)), datasets=datasets).jobs
            verdict = ("fresh" if job.is_fresh else "stale", job.why)
        except AppError as error:
            is_early = error.code == "input_missing"
            verdict = (
                ("stale", f"Input {error.extra['names'][0]} has no data yet") if is_early else ("unknown", error.detail)
            )
        judged.update({output.path: verdict for output in spec.outputs})
    return judged


def _describe(
    path: str, depth: int, maker: Spec | None, dataset_id: int | None, freshness: dict[str, tuple[str, str]]
) -> LineageNode:
    state, why = freshness.get(path, ("source", "No transform makes it: it is uploaded or written by a client"))
    return LineageNode(
        path=path,
        dataset_id=dataset_id,
        depth=depth,
        state=state,
        why=why,
        function=maker.function if maker else "",
        repository=maker.repository if maker else "",
        branch=maker.branch if maker else "",
    )
