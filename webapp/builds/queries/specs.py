"""Published JobSpecs: as one branch sees them, and as a graph of datasets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django.db.models import Exists, OuterRef, Subquery

from webapp.accounts import permissions as accounts
from webapp.builds.models import CodeColumns, PublishedOutput, PublishedSpec
from webapp.builds.queries import chains, planning, used_files
from webapp.builds.queries.sources import MadeColumn, read_made_columns
from webapp.builds.rules import fallback, lineage
from webapp.builds.rules.freshness import SOURCE, FreshnessVerdict, describe_key, judge_without_input
from webapp.builds.rules.plan import plan_alone
from webapp.builds.rules.values import Spec
from webapp.core import names
from webapp.core.errors import AppError
from webapp.datasets import queries as datasets
from webapp.datasets.models import Dataset
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.core.principals import Principal


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
    edges: tuple[lineage.Edge, ...]
    is_cut: bool
    columns: tuple[MadeColumn, ...]
    """Those of the dataset asked for of which it is known what they are made of."""


class Surroundings(NamedTuple):
    """A dataset as one branch sees it, and the datasets one step away from it, by name."""

    node: LineageNode
    made_from: tuple[str, ...]
    used_by: tuple[str, ...]
    """The first ones of very many."""


class SeenSpec(NamedTuple):
    """A JobSpec that a branch sees, without what it declares."""

    paths: tuple[str, ...]
    """Its outputs by name."""
    id: int
    branch: str
    names: str
    """Its function and outputs, to search in."""


def list_jobspecs(*, repository: Repository, branch: str) -> QuerySet[PublishedSpec]:
    """Return the JobSpecs that a build on a branch would use, by their first output.

    Its own come first, then those of the chain that make something else, too. What of them is taken is loaded.
    """
    chain = chains.default_chain(repository=repository, branch=branch)
    outputs = PublishedOutput.objects.filter(spec__repository=repository, branch__in=chain).alias(
        rank=planning.rank_branches(chain)
    )
    earlier = outputs.filter(path=OuterRef("path"), rank__lt=OuterRef("rank"))
    own = outputs.filter(~Exists(earlier), spec=OuterRef("pk"))
    first = PublishedOutput.objects.filter(spec=OuterRef("pk")).order_by("path").values("path")[:1]
    specs = PublishedSpec.objects.filter(Exists(own), repository=repository, branch__in=chain)
    return specs.select_related("repository").order_by(Subquery(first), "pk")


def describe_dependencies(rows: Iterable[PublishedSpec]) -> dict[str, tuple[str, ...]]:
    """Return digest → the modules and files that the freshness of these JobSpecs depends on, by name.

    Files that libraries look for on their own and that are not there count, and are left out.
    """
    digests = {row.digest for row in rows}
    keys = used_files.list_used(digests)
    for digest, covers in CodeColumns.objects.filter(digest__in=digests).values_list("digest", "covers"):
        keys[digest] = keys.get(digest, frozenset()) | set(covers)
    shown = {digest: [key for key in keys.get(digest, ()) if not key.startswith("seek:")] for digest in digests}
    return {digest: tuple(sorted({describe_key(key) for key in names})) for digest, names in shown.items()}


def list_seen(*, repository: Repository, branch: str) -> list[SeenSpec]:
    """Return the names of all JobSpecs that a build on a branch would use."""
    used = list_jobspecs(repository=repository, branch=branch).order_by().values("pk")
    outputs: dict[tuple[int, str, str], list[str]] = {}
    rows = PublishedOutput.objects.filter(spec__in=used)
    for path, found_on, pk, function in rows.values_list("path", "branch", "spec_id", "spec__function"):
        outputs.setdefault((pk, found_on, function), []).append(path)
    return sorted(
        SeenSpec(tuple(sorted(paths)), pk, found_on, " ".join((function, *paths)).lower())
        for (pk, found_on, function), paths in outputs.items()
    )


def search_seen(seen: Iterable[SeenSpec], q: str) -> list[SeenSpec]:
    """Return those of these JobSpecs that have all words of a text in their names."""
    words = q.lower().split()
    return [spec for spec in seen if all(word in spec.names for word in words)]


def load_seen(seen: Iterable[SeenSpec]) -> list[PublishedSpec]:
    """Return these JobSpecs with what they declare, in their order; one that is replaced meanwhile is left out."""
    ids = [spec.id for spec in seen]
    rows = PublishedSpec.objects.select_related("repository").in_bulk(ids)
    return [rows[pk] for pk in ids if pk in rows]


def read_lineage(principal: Principal, *, dataset: Dataset, branch: str) -> Lineage:
    """Return the graph around a dataset on a branch; datasets that the reader may not see are left out."""
    repository = chains.find_repository(paths=[dataset.path], branch=branch)
    chain = chains.default_chain(repository=repository, branch=branch)
    below = planning.list_below([dataset.path], chain, most=lineage.MAX_NODES)
    specs, _made, _rows = planning.load_specs_above({dataset.path, *below}, chain)
    graph = lineage.walk(specs=specs, chain=chain, path=dataset.path)
    visible = _filter_visible(principal, graph.depths)
    ids = dict(Dataset.objects.filter(path__in=visible).values_list("path", "pk"))
    freshness = _judge(specs, chain, [graph.makers[path] for path in visible if path in graph.makers])
    nodes = tuple(
        _describe(path, graph.depths[path], graph.makers.get(path), ids.get(path), freshness)
        for path in sorted(visible, key=lambda path: (graph.depths[path], path))
    )
    edges = tuple(edge for edge in graph.edges if edge.input in visible and edge.output in visible)
    return Lineage(
        path=dataset.path,
        branch=branch,
        chain=chain,
        nodes=nodes,
        edges=edges,
        is_cut=graph.is_cut,
        columns=_read_columns(principal, dataset, chain),
    )


def _read_columns(principal: Principal, dataset: Dataset, chain: Sequence[str]) -> tuple[MadeColumn, ...]:
    _branch, shown = datasets.resolve_view(dataset, chain) or ("", None)
    return read_made_columns(principal, [shown.pk]).get(shown.pk, ()) if shown is not None else ()


def read_surroundings(principal: Principal, *, dataset: Dataset, branch: str) -> Surroundings:
    """Return whether a dataset is fresh on a branch, from its own JobSpec alone, and its neighbours, without the graph.

    Its page let the reader in; neighbours that the reader may not see are left out.
    """
    repository = chains.find_repository(paths=[dataset.path], branch=branch)
    chain = chains.default_chain(repository=repository, branch=branch)
    specs = planning.load_makers({dataset.path}, chain)
    maker = lineage.find_makers(specs=specs, chain=chain).get(dataset.path)
    node = _describe(dataset.path, 0, maker, dataset.pk, _judge(specs, chain, [maker] if maker else []))
    inputs = sorted({source.path for source in maker.inputs} - {dataset.path}) if maker else []
    readers = planning.list_readers(dataset.path, chain, most=lineage.MAX_NODES)
    visible = _filter_visible(principal, (*inputs, *readers))
    return Surroundings(node, *(tuple(path for path in paths if path in visible) for paths in (inputs, readers)))


def _filter_visible(principal: Principal, paths: Iterable[str]) -> set[str]:
    folders = accounts.visible_folders(principal)
    return {path for path in paths if folders is None or names.folder_of(path) in folders}


def judge(*, branch_specs: Sequence[PublishedSpec], chain: tuple[str, ...]) -> dict[str, FreshnessVerdict]:
    """Return for each output of these JobSpecs whether it is fresh."""
    makers = [planning.read_spec(row) for row in branch_specs]
    specs = planning.load_makers({path for spec in makers for path in spec.output_paths}, chain)
    return _judge(specs, chain, makers)


def list_stale(judged: Mapping[str, FreshnessVerdict], *, branch_specs: Sequence[PublishedSpec]) -> tuple[str, ...]:
    """Return the stale outputs that one build of them can make, those that others need first.

    What is stale but reads a dataset without data, which none of them makes, is left out.
    """
    waiting = [[output["path"] for output in row.spec["outputs"]] for row in branch_specs]
    waiting = [paths for paths in waiting if judged[paths[0]].state == "stale"]
    listed: list[str] = []
    while ready := [paths for paths in waiting if judged[paths[0]].missing <= set(listed)]:
        waiting = [paths for paths in waiting if paths not in ready]
        listed += [path for paths in ready for path in paths]
    return tuple(listed)


def choose_own(
    stale: Sequence[str], judged: Mapping[str, FreshnessVerdict], own: Collection[str] | None
) -> tuple[str, ...]:
    """Return those stale outputs that are among the branch's own, and those without data that these are made from.

    Args:
        stale: what one build can make, those first that others need.
        judged: output → verdict.
        own: the outputs that the branch changes; None for a branch of which all are.

    """
    if own is None:
        return tuple(stale)
    needed = set(own)
    for path in reversed(stale):
        if path in needed:
            needed |= judged[path].missing
    return tuple(path for path in stale if path in needed)


def _judge(specs: Sequence[Spec], chain: tuple[str, ...], makers: Sequence[Spec]) -> dict[str, FreshnessVerdict]:
    """Return for each output whether it is fresh; each job alone, so one that cannot be planned hides no other."""
    datasets = planning.load_datasets(paths={path for spec in makers for path in spec.paths}, branches=chain)
    filled = {path for path, state in datasets.items() if fallback.first_existing(chain, state.committed) is not None}
    files = planning.read_files(makers, datasets)
    alone = plan_alone(specs=specs, chain=chain, makers=makers, datasets=datasets, files=files)
    judged: dict[str, FreshnessVerdict] = {}
    for spec in makers:
        job = alone[spec.id]
        if not isinstance(job, AppError):
            verdict = FreshnessVerdict("fresh" if job.is_fresh else "stale", job.why)
        elif job.code == "input_missing":
            missing = frozenset(declared.path for declared in spec.inputs) - filled
            verdict = judge_without_input(job.extra["names"][0], missing=missing)
        else:
            verdict = FreshnessVerdict("unknown", job.detail)
        judged.update({output.path: verdict for output in spec.outputs})
    return judged


def _describe(
    path: str, depth: int, maker: Spec | None, dataset_id: int | None, freshness: Mapping[str, FreshnessVerdict]
) -> LineageNode:
    verdict = freshness.get(path, SOURCE)
    return LineageNode(
        path=path,
        dataset_id=dataset_id,
        depth=depth,
        state=verdict.state,
        why=verdict.why,
        function=maker.function if maker else "",
        repository=maker.repository if maker else "",
        branch=maker.branch if maker else "",
    )
