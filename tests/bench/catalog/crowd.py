"""Eight clients at once against servers that are warm: what a peer on both cores makes of a crowd.

Three things make this differ from one client in turn. A Java server is two to eight times as fast after thousands of
requests as after the first hundreds, so each gets some thousands first. All work is parallel, so that a server of one core
shows. And clients read what they get: every answer is parsed, every commit asserts UUID and snapshot and finds its own.
Readers are bare sockets: eight threads of a full HTTP client read two thousand answers a second, whoever gives them.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.bench.catalog.client import NAMESPACE, Contender, Reader, Writer, count_lost
from tests.bench.catalog.works import WRITERS, Effort, Result, key

SPEC = {"spec-id": 0, "fields": [{"name": "c1_bucket", "transform": "bucket[16]", "source-id": 1, "field-id": 1000}]}
LISTED = 100


@dataclass
class _Tally:
    """What one kind of work came to on one server."""

    rates: list[float] = field(default_factory=list)
    lost: int = 0
    conflicts: int = 0

    def describe(self) -> str:
        return f"{self.lost} lost, {self.conflicts} conflicts"


def run_crowd(contenders: Sequence[Contender], effort: Effort) -> list[Result]:
    """Commits on eight tables and on one, loads of a table with one snapshot, and lists of a hundred tables."""
    for contender in contenders:
        _prepare(contender)
        _warm_up(contender, effort.warm)
    return [
        _run_commits(contenders, effort, tables=WRITERS),
        _run_commits(contenders, effort, tables=1),
        _run_reads("crowd: loads, 1 snapshot", contenders, effort, make_load),
        _run_reads(f"crowd: lists of {LISTED}", contenders, effort, make_list),
    ]


def make_load(contender: Contender) -> Callable[[], object]:
    """Load a table with one snapshot, on a connection of its own."""
    reader = Reader(contender, f"namespaces/{NAMESPACE}/tables/read_{key(contender)}")
    return lambda: reader.read()["metadata"]["current-snapshot-id"]


def make_list(contender: Contender) -> Callable[[], object]:
    """List a namespace, on a connection of its own."""
    reader = Reader(contender, f"namespaces/listed_{key(contender)}/tables?pageSize={LISTED}&pageToken=")
    return lambda: reader.read()["identifiers"][LISTED - 1]


def _prepare(contender: Contender) -> None:
    client = contender.connect()
    client.create_table(f"read_{key(contender)}", spec=SPEC)
    Writer(client, f"read_{key(contender)}").append()
    client.create_namespace(f"listed_{key(contender)}")
    for number in range(LISTED):
        client.create_table(f"t{number:03d}", f"listed_{key(contender)}", spec=SPEC)


def _warm_up(contender: Contender, requests: int) -> None:
    for make in (make_load, make_list):
        _run_at_once([make(contender) for _ in range(WRITERS)], requests // WRITERS)
    _run_at_once(_make_appends(contender, "warm_crowd", tables=WRITERS)[0], requests // WRITERS // 10)


def _make_appends(contender: Contender, name: str, *, tables: int) -> tuple[list[Callable[[], object]], list[Writer]]:
    names = [f"{name}_{number}_{key(contender)}" for number in range(tables)]
    for table in names:
        contender.connect().create_table(table, spec=SPEC)
    writers = [Writer(contender.connect(), names[n % tables], reads_answers=True) for n in range(WRITERS)]
    return [writer.append for writer in writers], writers


def _run_commits(contenders: Sequence[Contender], effort: Effort, *, tables: int) -> Result:
    tallies = {contender.name: _Tally() for contender in contenders}
    for round_ in range(effort.rounds):
        for contender in random.sample(contenders, len(contenders)):
            tally = tallies[contender.name]
            works, writers = _make_appends(contender, f"crowd_{round_}_{tables}", tables=tables)
            tally.rates.append(_run_at_once(works, effort.per_crowd))
            for table in {writer.table for writer in writers}:
                tally.lost += count_lost([writer for writer in writers if writer.table == table])
            tally.conflicts += sum(writer.lost_races for writer in writers)
    notes = {name: tally.describe() for name, tally in tallies.items()}
    values = {name: statistics.median(tally.rates) for name, tally in tallies.items()}
    return Result(f"crowd: commits, {tables} table{'s' * (tables > 1)}", values, unit="/s", notes=notes)


def _run_reads(
    name: str, contenders: Sequence[Contender], effort: Effort, make: Callable[[Contender], Callable[[], object]]
) -> Result:
    rates: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for _ in range(effort.rounds):
        for contender in random.sample(contenders, len(contenders)):
            works = [make(contender) for _ in range(WRITERS)]
            rates[contender.name].append(_run_at_once(works, effort.crowd_reads))
    return Result(name, {name: statistics.median(rate) for name, rate in rates.items()}, unit="/s")


def _run_at_once(works: Sequence[Callable[[], object]], times: int) -> float:
    """How many a second, all threads together."""
    failures: list[BaseException] = []

    def repeat(work: Callable[[], object]) -> None:
        try:
            for _ in range(times):
                work()
        except (AssertionError, OSError, LookupError) as error:
            failures.append(error)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return len(works) * times / (time.perf_counter() - start)
