"""The lineage of a dataset, and whether it is fresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.builds.queries import specs
from webapp.builds.rules.freshness import FreshnessVerdict

if TYPE_CHECKING:
    from webapp.builds.queries.sources import MadeColumn
    from webapp.core.principals import Principal
from webapp.builds.pages.links import DatasetLink, link_dataset

MOST_COLUMNS = 200
"""That are shown."""
MOST_NEIGHBOURS = 10
"""That are shown beside a dataset of those that are made from it; the graph has them all."""
FRESHNESS = {
    "source": ("src", "database", "Source"),
    "fresh": ("ok", "check-circle-fill", "Fresh"),
    "stale": ("wait", "history", "Stale"),
    "unknown": ("abort", "circle-slash", "Cannot be planned"),
}
STATE_OF_FRESHNESS = {"source": "void", "fresh": "ok", "stale": "stale", "unknown": "void"}
"""How a state is drawn by the page's own words for states."""


def describe_verdict(verdict: FreshnessVerdict) -> Mapping[str, str]:
    """Return how pages draw and say whether an output is fresh."""
    return {
        "state_kind": STATE_OF_FRESHNESS[verdict.state],
        "word": FRESHNESS[verdict.state][2].lower(),
        "why": verdict.why,
    }


@dataclass(frozen=True, slots=True)
class LineagePage:
    """The graph around a dataset, and whether the dataset itself is fresh."""

    dataset: Any
    branch: str
    nodes: tuple[Mapping[str, Any], ...]
    upstream: int
    downstream: int
    is_cut: bool
    own: Mapping[str, Any]
    columns: tuple[MadeColumn, ...]
    """Of the dataset, those of which it is known what they are made of; the first ones of very many."""
    more: int
    """How many others there are."""


def read_lineage_page(principal: Principal, *, dataset: Any, branch: str) -> LineagePage:
    """Return the graph as the page draws it."""
    graph = specs.read_lineage(principal, dataset=dataset, branch=branch)
    needs: dict[str, list[str]] = {}
    for edge in graph.edges:
        needs.setdefault(edge.output, []).append(_node_id(edge.input))
    folder = f"/{dataset.path.split('/')[1]}/"
    nodes = tuple(_draw_node(node, needs.get(node.path, []), branch, folder) for node in graph.nodes)
    return LineagePage(
        dataset=dataset,
        branch=branch,
        nodes=nodes,
        upstream=sum(node.depth < 0 for node in graph.nodes),
        downstream=sum(node.depth > 0 for node in graph.nodes),
        is_cut=graph.is_cut,
        own=next(node for node in nodes if node["path"] == dataset.path),
        columns=graph.columns[:MOST_COLUMNS],
        more=len(graph.columns[MOST_COLUMNS:]),
    )


@dataclass(frozen=True, slots=True)
class FreshnessPart:
    """Whether a dataset is fresh, beside it on its page."""

    dataset: Any
    branch: str
    own: Mapping[str, Any]
    made_from: tuple[DatasetLink, ...]
    used_by: tuple[DatasetLink, ...]
    more: int
    """How many others are made from it."""


def read_freshness_part(principal: Principal, *, dataset: Any, branch: str) -> FreshnessPart:
    """Return the dataset's own node of the lineage and what is one step away, without the graph."""
    surroundings = specs.read_surroundings(principal, dataset=dataset, branch=branch)
    return FreshnessPart(
        dataset=dataset,
        branch=branch,
        own=_draw_node(surroundings.node, (), branch, "/"),
        made_from=tuple(link_dataset(path, branch) for path in surroundings.made_from),
        used_by=tuple(link_dataset(path, branch) for path in surroundings.used_by[:MOST_NEIGHBOURS]),
        more=len(surroundings.used_by[MOST_NEIGHBOURS:]),
    )


def _node_id(path: str) -> str:
    return path.strip("/").replace("/", "-")


def _draw_node(node: specs.LineageNode, needs: Sequence[str], branch: str, folder: str) -> Mapping[str, Any]:
    kind, icon, word = FRESHNESS[node.state]
    return {
        "id": _node_id(node.path),
        "path": node.path,
        "dataset": link_dataset(node.path, branch, folder),
        "needs": " ".join(needs),
        "kind": kind,
        "icon": icon,
        "word": word,
        "why": node.why,
        "state": node.state,
        "function": node.function,
        "repository": node.repository,
        "spec_branch": node.branch,
        "state_kind": STATE_OF_FRESHNESS[node.state],
        "is_own": node.depth == 0,
        "depth": node.depth,
    }
