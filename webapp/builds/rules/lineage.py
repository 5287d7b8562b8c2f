"""The graph of datasets around one of them, from the JobSpecs that a chain sees."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from webapp.builds.rules.values import Spec

MAX_NODES = 150
"""Nodes in a graph. A larger one cannot be read; the page says that it is cut."""


class Edge(NamedTuple):
    """A dataset, and one that is made from it."""

    input: str
    output: str


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """Datasets by their distance (negative upstream), who makes each, and the edges between them."""

    depths: dict[str, int]
    makers: dict[str, Spec]
    edges: tuple[Edge, ...]
    is_cut: bool


def walk(*, specs: Iterable[Spec], chain: Sequence[str], path: str) -> LineageGraph:
    """Return everything above and below a dataset, nearest first, up to a limit."""
    makers = find_makers(specs=specs, chain=chain)
    up: dict[str, list[str]] = {}
    down: dict[str, list[str]] = {}
    for output, spec in makers.items():
        for declared in spec.inputs:
            up.setdefault(output, []).append(declared.path)
            down.setdefault(declared.path, []).append(output)
    depths = {path: 0}
    cut_up = _spread(path, up, depths, -1)
    cut_down = _spread(path, down, depths, 1)
    edges = {Edge(source, output) for output in depths for source in up.get(output, ()) if source in depths}
    return LineageGraph(
        depths=depths,
        makers={place: makers[place] for place in depths if place in makers},
        edges=tuple(sorted(edges)),
        is_cut=cut_up or cut_down,
    )


def find_makers(*, specs: Iterable[Spec], chain: Sequence[str]) -> dict[str, Spec]:
    """Return the JobSpec of each output, from the first branch of the chain that has one."""
    rank = {branch: place for place, branch in enumerate(chain)}
    makers: dict[str, Spec] = {}
    for spec in sorted((spec for spec in specs if spec.branch in rank), key=lambda spec: (rank[spec.branch], spec.id)):
        for output in spec.outputs:
            makers.setdefault(output.path, spec)
    return makers


def _spread(start: str, neighbours: dict[str, list[str]], depths: dict[str, int], step: int) -> bool:
    waiting = deque([start])
    while waiting:
        current = waiting.popleft()
        for neighbour in sorted(neighbours.get(current, ())):
            if neighbour in depths:
                continue
            if len(depths) >= MAX_NODES:
                return True
            depths[neighbour] = depths[current] + step
            waiting.append(neighbour)
    return False
