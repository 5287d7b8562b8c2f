"""The work that is measured, each piece on every server in turn, so that all see the same machine."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.bench.catalog.client import BRANCH_HEADER, NAMESPACE, Client, Contender, Writer, count_lost

HISTORIES = (1, 100, 1000)
SIZES = (10, 100, 1000)
LISTS = (100, 1000, 10_000)
WRITERS = 8
PAGE = 100
IN_A_ROW = 10
Values = dict[str, float]
"""By contender: milliseconds, or how many per second."""


@dataclass
class Result:
    """One row of the table."""

    work: str
    values: Values
    unit: str = "ms"
    notes: dict[str, str] = field(default_factory=dict)
    """What to say beside a value, or where there is none."""


@dataclass(frozen=True)
class Effort:
    """How often things are done; all at a tenth makes a quick try."""

    loads: int = 200
    commits: int = 60
    rounds: int = 5
    per_writer: int = 20
    """So many that what only the first of them does, such as making the branch, is not what is measured."""
    per_crowd: int = 30
    crowd_reads: int = 1000
    """Of each reader in a round: seconds of work, where a tenth of a second is decided by who was interrupted."""
    warm: int = 8000
    """Requests of each kind before a crowd is measured; a tenth of it commits."""
    histories: tuple[int, ...] = HISTORIES
    sizes: tuple[int, ...] = SIZES
    lists: tuple[int, ...] = LISTS


def measure(works: dict[str, Callable[[], object]], times: int) -> Values:
    """Medians in milliseconds, some of each in turn and in an order that changes.

    What one server leaves behind, such as garbage to collect, then meets the first of the next one's and not all of them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    order = list(works)
    for done in range(0, times, IN_A_ROW):
        random.shuffle(order)
        for name in order:
            for _ in range(min(IN_A_ROW, times - done)):
                start = time.perf_counter()
                works[name]()
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) * 1000 for name, values in seconds.items()}


def per_second(milliseconds: Values) -> Values:
    """The same as a rate."""
    return {name: 1000 / value for name, value in milliseconds.items()}


def warm_up(contenders: Sequence[Contender]) -> None:
    """Let every server compile, open and cache what it will: nobody is measured cold."""
    for contender in contenders:
        client = contender.connect()
        name = f"warm_{key(contender)}"
        client.create_table(name)
        writer = Writer(client, name)
        for _ in range(150):
            writer.append()
            client.load(name).json()


def key(contender: Contender) -> str:
    """A table name for a contender: two of them share a server."""
    return contender.name.lower().replace(" ", "_")


def run_histories(contenders: Sequence[Contender], effort: Effort) -> list[Result]:
    """Load, and load again unchanged, and append, with a growing history."""
    clients = {contender.name: contender.connect() for contender in contenders}
    names = {contender.name: f"history_{key(contender)}" for contender in contenders}
    for name, client in clients.items():
        client.create_table(names[name])
    writers = {name: Writer(client, names[name]) for name, client in clients.items()}
    found: list[Result] = []
    appends: Result | None = None
    for length in effort.histories:
        growing = {contender.name for contender in contenders if contender.keeps_snapshots or length == 1}
        for name, writer in writers.items():
            while name in growing and len(writer.parents) < length:
                writer.append()
        found += _run_loads({name: clients[name] for name in growing}, names, length, effort)
        if length == effort.histories[-1]:
            values = measure({name: writers[name].append for name in growing}, effort.commits)
            found.append(Result(f"commit, {length:,} snapshots", values))
        elif length == 1:
            appends = _run_appends(contenders, effort)
            found.append(appends)
    return found


def _run_loads(clients: dict[str, Client], names: dict[str, str], length: int, effort: Effort) -> list[Result]:
    first = {name: client.load(names[name]) for name, client in clients.items()}
    sizes = {name: f"{len(answer.body) / 1000:.0f} kB" for name, answer in first.items()}
    for name, answer in first.items():
        assert len(answer.json()["metadata"]["snapshots"]) == length, name
    loads = {name: _loader(client, names[name], 200) for name, client in clients.items()}
    plural = "s" if length > 1 else ""
    found = [Result(f"loadTable, {length:,} snapshot{plural}", measure(loads, effort.loads), notes=sizes)]
    tags = {name: answer.headers["etag"] for name, answer in first.items() if "etag" in answer.headers}
    again = {name: _loader(clients[name], names[name], 304, **{"if-none-match": tag}) for name, tag in tags.items()}
    found.append(Result(f"unchanged (304), {length:,} snapshot{plural}", measure(again, effort.loads)))
    return found


def _loader(client: Client, table: str, status: int, **headers: str) -> Callable[[], None]:
    def load() -> None:
        answer = client.load(table, **headers)
        assert answer.status == status, (client.contender.name, answer.status, answer.body[:300])

    return load


def _run_appends(contenders: Sequence[Contender], effort: Effort) -> Result:
    """One writer on a table of its own, up to a hundred snapshots."""
    works: dict[str, Callable[[], object]] = {}
    for contender in contenders:
        client = contender.connect()
        client.create_table(f"appends_{key(contender)}")
        works[contender.name] = Writer(client, f"appends_{key(contender)}").append
    values = per_second(measure(works, min(effort.commits * 2, 100)))
    return Result("append commits, one writer", values, unit="/s")


def run_together(contenders: Sequence[Contender], effort: Effort, *, one_table: bool) -> Result:
    """Eight writers at once, on a table each or all on one; counts the updates that were acknowledged and lost."""
    rates: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    lost = dict.fromkeys(rates, 0)
    races = dict.fromkeys(rates, 0)
    for number in range(effort.rounds):
        for contender in random.sample(contenders, len(contenders)):
            tables = [f"w{number}_{int(one_table)}_{n}_{key(contender)}" for n in range(1 if one_table else WRITERS)]
            for table in tables:
                contender.connect().create_table(table)
            writers = [Writer(contender.connect(), tables[n % len(tables)]) for n in range(WRITERS)]
            rates[contender.name].append(_write_at_once(writers, effort.per_writer))
            by_table = [[each for each in writers if each.table == table] for table in tables]
            lost[contender.name] += sum(count_lost(each) for each in by_table)
            races[contender.name] += sum(writer.lost_races for writer in writers)
    name = f"{WRITERS} writers on one table" if one_table else f"{WRITERS} writers on {WRITERS} tables"
    notes = {each: f"{lost[each]} lost" + (f", {races[each]} repeats" if one_table else "") for each in rates}
    return Result(name, {each: statistics.median(rate) for each, rate in rates.items()}, unit="/s", notes=notes)


def _write_at_once(writers: Sequence[Writer], times: int) -> float:
    """Commits per second."""
    failures: list[BaseException] = []

    def write(writer: Writer) -> None:
        try:
            for _ in range(times):
                writer.append()
        except (AssertionError, OSError) as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    if failures:
        raise failures[0]
    return len(writers) * times / seconds


def run_tables(contenders: Sequence[Contender], effort: Effort) -> tuple[list[Result], list[Result]]:
    """Make many tables, list them; and what a commit costs beside so many."""
    namespace = f"{NAMESPACE}_many"
    clients = {contender.name: contender.connect() for contender in contenders}
    writers: dict[str, Writer] = {}
    for name, client in clients.items():
        client.create_namespace(namespace)
        client.create_table("t000000", namespace)
        writers[name] = Writer(client, "t000000", namespace)
    made = 1
    creations: list[Values] = []
    slope: list[Result] = []
    for size in effort.sizes:
        numbers = {name: iter(range(made, size)) for name in clients}
        works = {
            name: (lambda client=client, left=numbers[name]: client.create_table(f"t{next(left):06d}", namespace))
            for name, client in clients.items()
        }
        creations.append(measure(works, size - made))
        made = size
        appends = {name: writer.append for name, writer in writers.items()}
        slope.append(Result(f"commit beside {size:,} tables", measure(appends, effort.commits // 2)))
    rows = [Result("tables created", per_second(creations[-1]), unit="/s")]
    path = f"namespaces/{namespace}/tables"
    lists = {name: _lister(client, f"{path}?pageSize={PAGE}&pageToken=") for name, client in clients.items()}
    rows.append(Result(f"list {PAGE} of {made:,} tables", measure(lists, effort.loads // 2)))
    lists = {name: _lister(client, path) for name, client in clients.items()}
    notes = {name: f"{_count(client, path)} listed" for name, client in clients.items()}
    rows.append(Result(f"list all {made:,} tables", measure(lists, effort.loads // 4), notes=notes))
    return rows, slope


def _lister(client: Client, path: str) -> Callable[[], None]:
    return lambda: None if client.call("GET", path).status == 200 else _fail(client, path)


def _fail(client: Client, path: str) -> None:
    message = f"{client.contender.name} does not list {path}"
    raise AssertionError(message)


def _count(client: Client, path: str) -> int:
    return len(client.call("GET", path).json()["identifiers"])


def run_branches(contenders: Sequence[Contender], effort: Effort) -> list[Result]:
    """What a commit costs on a table with so many branches: with the header each has a schema of its own to keep."""
    base = [contender for contender in contenders if contender.keeps_snapshots]
    writers = {}
    for contender in base:
        client = contender.connect()
        client.create_table(f"branches_{key(contender)}")
        writers[contender.name] = Writer(client, f"branches_{key(contender)}")
        writers[contender.name].append()
    made = 0
    slope: list[Result] = []
    for size in effort.sizes:
        for contender in base:
            _add_branches(contender, writers[contender.name], range(made, size))
        made = size
        values = measure({name: writer.append for name, writer in writers.items()}, effort.commits // 2)
        loaded = {name: writer.client.load(writer.table) for name, writer in writers.items()}
        notes = {name: f"{len(answer.body) / 1000:.0f} kB" for name, answer in loaded.items()}
        slope.append(Result(f"commit beside {size:,} branches", values, notes=notes))
    return slope


def _add_branches(contender: Contender, writer: Writer, numbers: range) -> None:
    if BRANCH_HEADER in contender.headers:
        make_branches(contender, writer.table, numbers)
        return
    made = [
        {"action": "set-snapshot-ref", "ref-name": f"b{number}", "type": "branch", "snapshot-id": writer.head}
        for number in numbers
    ]
    writer.commit(made).json()


def make_branches(contender: Contender, table: str, numbers: range) -> None:
    """Branches with a schema and a head of their own, each by an append with its header."""
    for number in numbers:
        headers = {**contender.headers, BRANCH_HEADER: f"b{number}"}
        Writer(Contender(contender.name, contender.port, contender.base, headers).connect(), table).append()
