"""What the metadata file of a long-lived table consists of, what makes it small again, and what a commit costs then."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.catalog.client import Contender, Writer
from tests.bench.catalog.works import Effort, make_branches, measure
from webapp.core.json_bytes import dump

PARTS = ("snapshots", "snapshot-log", "metadata-log", "refs", "properties")
KEPT_VERSIONS = "write.metadata.previous-versions-max"
FEW = 10


@dataclass
class Size:
    """One row of the table: a table in one state."""

    state: str
    total: int
    parts: dict[str, int]
    snapshots: int
    branches: int
    commit: float
    bare: float
    """Milliseconds to write and synchronise a file of this size, without any catalog."""

    @property
    def per_snapshot(self) -> float:
        """Bytes of a snapshot, its line in the log included where main has been at it."""
        return (self.parts["snapshots"] + self.parts["snapshot-log"]) / self.snapshots

    @property
    def per_branch(self) -> float:
        """Bytes of a branch: its ref, and the ids that it tracks among the properties."""
        return (self.parts["refs"] + self.parts["properties"]) / self.branches


def run_sizes(ours: Contender, branched: Contender, effort: Effort) -> list[Size]:
    """Let two tables grow, one by snapshots and one by branches, and shrink again."""
    found = []
    client = ours.connect()
    client.create_table("sizes_history")
    history = Writer(client, "sizes_history")
    for length in effort.histories:
        while len(history.parents) < length:
            history.append()
        found.append(_weigh(f"{length:,} snapshots", history, effort))
    _change(history, [{"action": "set-properties", "updates": {KEPT_VERSIONS: str(FEW)}}])
    found.append(_weigh(f"  {KEPT_VERSIONS} = {FEW}", history, effort))
    _expire(history, keep=FEW)
    found.append(_weigh(f"  snapshots expired but {FEW}", history, effort))

    client.create_table("sizes_branches")
    main = Writer(client, "sizes_branches")
    main.append()
    made = 0
    for size in effort.sizes:
        make_branches(branched, main.table, range(made, size))
        made = size
        main.refresh()
        found.append(_weigh(f"{size:,} branches, one append each", main, effort))
    names = [name for name in _load(main)["refs"] if name != "main"]
    _change(main, [{"action": "remove-snapshot-ref", "ref-name": name} for name in names])
    found.append(_weigh("  branches deleted", main, effort))
    _expire(main, keep=FEW)
    found.append(_weigh("  and their snapshots expired", main, effort))
    return found


def print_sizes(sizes: Sequence[Size]) -> None:
    """Print the table."""
    head = "".join(f"{part:>14}" for part in PARTS)
    print(
        f"{'metadata file, kB':<46}{'file':>8}{head}{'else':>6}{'B/snapshot':>12}{'B/branch':>10}{'commit':>11}{'bare write':>12}"
    )
    for size in sizes:
        cells = "".join(f"{size.parts[part] / 1000:>14.1f}" for part in PARTS)
        rest = size.total - sum(size.parts.values())
        print(
            f"{size.state:<46}{size.total / 1000:>8.1f}{cells}{rest / 1000:>6.1f}{size.per_snapshot:>12.0f}"
            f"{size.per_branch:>10.0f}{size.commit:>8.2f} ms{size.bare:>9.2f} ms"
        )


def _weigh(state: str, writer: Writer, effort: Effort) -> Size:
    commit = measure({"": writer.append}, max(effort.commits // 4, 3))[""]
    metadata = _load(writer)
    parts = {part: len(dump(metadata[part])) for part in PARTS}
    total = len(dump(metadata))
    counts = (len(metadata["snapshots"]), len(metadata["refs"]))
    return Size(state, total, parts, *counts, commit, measure_bare_write(total))


def measure_bare_write(size: int, times: int = 9) -> float:
    """The median of writing a new file of so many bytes and synchronising it and its folder, in milliseconds."""
    content = os.urandom(size)
    seconds = []
    with tempfile.TemporaryDirectory() as name:
        folder = os.open(name, os.O_RDONLY)
        for number in range(times):
            start = time.perf_counter()
            with Path(name, str(number)).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.fsync(folder)
            seconds.append(time.perf_counter() - start)
        os.close(folder)
    return statistics.median(seconds) * 1000


def _load(writer: Writer) -> dict[str, Any]:
    metadata: dict[str, Any] = writer.client.load(writer.table, writer.namespace).json()["metadata"]
    return metadata


def _change(writer: Writer, updates: list[dict[str, Any]]) -> None:
    writer.commit(updates).json()


def _expire(writer: Writer, *, keep: int) -> None:
    """Remove all but the newest snapshots and those that something points to, as expire_snapshots does."""
    metadata = _load(writer)
    heads = {ref["snapshot-id"] for ref in metadata["refs"].values()}
    numbers = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]
    gone = [number for number in numbers[:-keep] if number not in heads]
    _change(writer, [{"action": "remove-snapshots", "snapshot-ids": gone}])
