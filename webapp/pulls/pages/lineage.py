"""The Lineage tab: what is changed and what is downstream as a graph, and whose code reads columns that go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.builds.pages.links import link_dataset
from webapp.comparisons.rules.states import NOT_COMPARED, UNCHANGED, ComparisonState
from webapp.pulls.pages.data import CHANGE_WORDS
from webapp.pulls.pages.head import Loaded, PullHead, frame, load, read_head
from webapp.pulls.queries import lineage as queries
from webapp.pulls.queries.breaks import Breaks, BrokenReader
from webapp.pulls.rules import states
from webapp.pulls.rules.lineage import NodeBuild

if TYPE_CHECKING:
    from webapp.builds.queries import MadeColumn
    from webapp.core.principals import Principal

BUILDS = {
    NodeBuild.CURRENT: ("ok", "check-circle-fill", "ok", "Built"),
    NodeBuild.OUTDATED: ("wait", "history", "stale", "Built with older code"),
    NodeBuild.NOT_BUILT: ("wait", "circle", "wait", "Not built"),
    NodeBuild.RUNNING: ("run", "sync", "run", "Being built"),
    NodeBuild.FAILED: ("bad", "x-circle-fill", "bad", "Build failed"),
    NodeBuild.LOADED: ("src", "upload", "ok", "Loaded"),
    NodeBuild.REMOVED: ("abort", "diff-removed", "void", "No longer made"),
    NodeBuild.OWN_DATA: ("src", "table", "ok", "Has data of the branch"),
    NodeBuild.UNTOUCHED: ("fresh", "table", "void", "Not built on the branch"),
}
"""How the graph draws each, its icon, the tone that a list shows it in, and its word."""
MOST_COLUMNS = 30
"""Of a dataset, that are shown with what they are made of."""
FINAL = frozenset({NOT_COMPARED, ComparisonState.READY, ComparisonState.FAILED})


@dataclass(frozen=True)
class ShownInput:
    """What a dataset reads of another one, as far as its code tells."""

    path: str
    columns: str
    """Those that it asks for; empty where that is not known."""
    is_listed: bool


@dataclass(frozen=True)
class ShownNode:
    """One dataset of the graph."""

    id: str
    needs: str
    """Ids of what it is made from."""
    path: str
    short: str
    url: str
    change: str
    change_word: str
    """Empty for what is downstream in another repository."""
    drawn: str
    icon: str
    tone: str
    word: str
    """How it is built."""
    schema: str
    rows: str
    delta: tuple[int, int, int] | None
    """Rows added, removed and changed; None where they are not compared, or are the same."""
    sub: str
    """All of it in a few signs, for the graph."""
    reason: str
    """Why the rows are not compared."""
    function: str
    origin: str
    """Repository and branch of its JobSpec."""
    inputs: tuple[ShownInput, ...]
    hidden_inputs: int
    columns: tuple[MadeColumn, ...]
    more_columns: int
    """How many others there are of which it is known what they are made of."""


@dataclass(frozen=True)
class BreakLine:
    """One transform whose code reads columns that go."""

    outputs: tuple[tuple[str, str], ...]
    """Path and address of what it makes."""
    read: str
    """Columns that it asks for."""
    named: str
    """Columns whose names its code has."""
    path: str
    """The dataset that loses them."""
    function: str
    repository: str
    """Empty for the pull request's own."""
    branches: str
    others: int
    """Branches that are not named."""

    @property
    def is_certain(self) -> bool:
        """Whether it asks for one of them by name."""
        return bool(self.read)


@dataclass(frozen=True)
class ShownBreaks:
    """What is known of the readers of columns that go."""

    gone: tuple[tuple[str, str, str], ...]
    """Dataset, its address, and the columns."""
    lines: tuple[BreakLine, ...]
    more: int
    """Lines that are left out here."""
    hidden: int
    unknown: str
    others: int
    is_cut: bool
    url: str
    """Where all of it is."""


@dataclass(frozen=True)
class PullLineagePage:
    """Context of the Lineage tab."""

    nav: str
    repo_bar: dict[str, str]
    head: PullHead
    tab: str
    nodes: tuple[ShownNode, ...]
    changed: int
    downstream: int
    hidden: int
    is_cut: bool
    most: int
    breaks: ShownBreaks | None
    is_moving: bool


def read_pull_lineage(principal: Principal, repository: str, number: int) -> PullLineagePage:
    """Return what the Lineage tab shows."""
    loaded = load(principal, repository, number)
    lineage = queries.read_lineage(principal, loaded.pull, rows=loaded.rows, build=loaded.build)
    ids = {node.path: f"n{place}" for place, node in enumerate(lineage.nodes)}
    nodes = tuple(_show_node(loaded, node, ids) for node in lineage.nodes)
    downstream = sum(node.change in (None, states.AFFECTED) for node in lineage.nodes)
    return PullLineagePage(
        **frame(repository),
        head=read_head(principal, loaded),
        tab="Lineage",
        nodes=nodes,
        changed=sum(node.change in states.CHANGED for node in lineage.nodes),
        downstream=downstream,
        hidden=lineage.hidden,
        is_cut=lineage.is_cut,
        most=queries.MAX_NODES,
        breaks=show_breaks(loaded, lineage.breaks),
        is_moving=any(node.build == NodeBuild.RUNNING or node.rows.state not in FINAL for node in lineage.nodes),
    )


def _show_node(loaded: Loaded, node: queries.PullLineageNode, ids: dict[str, str]) -> ShownNode:
    pull = loaded.pull
    drawn, icon, tone, word = BUILDS[node.build]
    link = link_dataset(node.path, pull.source if node.build == NodeBuild.OWN_DATA else pull.target)
    rows, delta = _word_rows(node)
    return ShownNode(
        id=ids[node.path],
        needs=" ".join(ids[source.path] for source in node.inputs),
        path=node.path,
        short=node.path.removeprefix(f"/{pull.repository.name}/"),
        url=loaded.find_data_url(node.path) if node.change else link.url,
        change=node.change or "",
        change_word=CHANGE_WORDS.get(node.change or "", ""),
        drawn=drawn,
        icon=icon,
        tone=tone,
        word=word,
        schema=_word_schema(node.schema),
        rows=rows,
        delta=delta,
        sub=_shorten(node, word),
        reason=node.rows.reason or "",
        function=node.function,
        origin=f"{node.repository}, {node.branch}" if node.function else "",
        inputs=tuple(ShownInput(source.path, ", ".join(source.columns), source.is_listed) for source in node.inputs),
        hidden_inputs=node.hidden_inputs,
        columns=node.columns[:MOST_COLUMNS],
        more_columns=len(node.columns[MOST_COLUMNS:]),
    )


def _shorten(node: queries.PullLineageNode, word: str) -> str:
    schema = node.schema
    counts = (("+", len(schema.added)), ("−", len(schema.removed)), ("~", len(schema.modified)))
    columns = " ".join(f"{sign}{count}" for sign, count in counts if count)
    if schema.status == NOT_COMPARED and node.rows.state == NOT_COMPARED:
        return f"{word} · not compared"
    words = (word, f"columns {columns}" if columns else "", _word_rows(node)[0])
    return " · ".join(part for part in words if part)


def _sign(delta: tuple[int, int, int]) -> str:
    signs = zip("+−~", delta, strict=True)
    return " ".join(f"{sign}{count:,}" for sign, count in signs)


def _word_schema(schema: queries.NodeSchema) -> str:
    if schema.status == NOT_COMPARED:
        return "schema not compared"
    if schema.status == UNCHANGED:
        return "same schema"
    counts = (("added", schema.added), ("removed", schema.removed), ("changed", schema.modified))
    words = [f"{len(columns)} {word}" for word, columns in counts if columns]
    total = sum(len(columns) for _word, columns in counts)
    return f"{'column' if total == 1 else 'columns'}: {', '.join(words)}" if words else "other layout"


def _word_rows(node: queries.PullLineageNode) -> tuple[str, tuple[int, int, int] | None]:
    rows = node.rows
    if rows.state == ComparisonState.READY:
        delta = (rows.inserted or 0, rows.deleted or 0, rows.updated or 0)
        if not any(delta):
            return "same rows", None
        return f"rows {_sign(delta)}", delta
    words = {NOT_COMPARED: "rows not compared", ComparisonState.FAILED: "comparison of rows failed"}
    return words.get(rows.state, "comparing rows"), None


def show_breaks(loaded: Loaded, breaks: Breaks, *, most: int | None = None) -> ShownBreaks | None:
    """Return what pages say of the readers of columns that go; None where none go.

    Args:
        loaded: the pull request.
        breaks: what is known of them.
        most: so many lines are shown; all of them without it.

    """
    if not breaks.columns:
        return None
    shown = breaks.broken if most is None else breaks.broken[:most]
    return ShownBreaks(
        gone=tuple(
            (path, loaded.find_data_url(path), ", ".join(columns)) for path, columns in sorted(breaks.columns.items())
        ),
        lines=tuple(_show_line(loaded, reader) for reader in shown),
        more=len(breaks.broken) - len(shown),
        hidden=breaks.hidden,
        unknown=", ".join(breaks.unknown),
        others=breaks.others,
        is_cut=breaks.is_cut,
        url=f"{loaded.url}/lineage",
    )


def _show_line(loaded: Loaded, reader: BrokenReader) -> BreakLine:
    is_own = reader.repository == loaded.pull.repository.name
    return BreakLine(
        outputs=tuple((path, link_dataset(path, reader.branches[0]).url) for path in reader.outputs),
        read=", ".join(reader.gone.read),
        named=", ".join(reader.gone.named),
        path=reader.path,
        function=reader.function,
        repository="" if is_own else reader.repository,
        branches=", ".join(reader.branches),
        others=reader.others,
    )
