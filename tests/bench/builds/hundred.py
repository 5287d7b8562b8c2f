"""One build of many independent trivial tables: an installation under its supervisor, dbt-duckdb and SQLMesh in turn.

Every contender copies one source table of 1,000 rows into that many new tables, then replaces all of them. The time of the
peers' own start is theirs: each build is one command of theirs, as their users run it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from tests.bench.builds.processor import Spent, measure
from tests.factories.builds import HEAD, make_transform
from tests.factories.supervised import SupervisedStack

ROWS = 1000
THREADS = 4
"""Tables at once, for each contender: as many as an installation's worker runs."""
PACKAGES = Path(__file__).resolve().parents[3] / ".venv" / "peers"
LIMIT_S = 600
SILENT = {"DO_NOT_TRACK": "1", "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true"}
"""A benchmark tells nobody that it ran."""
GOAL_S = 0.25
"""Processor seconds of a job."""
SHOWN_MS = 0.5


class Contender(Protocol):
    """What builds all tables."""

    name: str

    def prepare(self, number: int) -> None:
        """Make a project, or the transforms of this round, whose tables are new."""

    def change(self) -> None:
        """Change the source table where the build would otherwise have nothing to do."""

    def build(self) -> float:
        """Build all tables of the round, whether they are new or not; return the seconds."""

    def check(self) -> None:
        """Stop where a figure would be of something that was not done."""

    def find_roots(self) -> dict[int, str]:
        """Return the processes that serve it from build to build, by name."""


@dataclass
class Result:
    """What one contender's builds of one kind took."""

    name: str
    walls: list[float] = field(default_factory=list)
    spent: list[Spent] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """Median seconds of a build."""
        return statistics.median(self.walls)

    @property
    def processor(self) -> float:
        """Median processor seconds of a build."""
        return statistics.median(spent.total for spent in self.spent)


@dataclass
class Ours:
    """An installation that runs already, and a module with one transform for each table of a round."""

    stack: SupervisedStack
    jobs: int
    name: str = "Tributary"
    targets: Sequence[str] = ()

    def prepare(self, number: int) -> None:
        """Publish the transforms of the round in place of those before."""
        if not self.targets:
            self.stack.make_repository()
            self.stack.upload("/shop/raw", make_csv()).raise_for_status()
        names = [f"r{number}t{place}" for place in range(self.jobs)]
        body = "out.write_table(i0.arrow())"
        code = (make_transform(name, inputs=["/shop/raw"], output=f"/shop/{name}", body=body) for name in names)
        self.stack.commit({"pipelines/many.py": HEAD + "".join(code)})
        self.targets = [f"/shop/{name}" for name in names]

    def change(self) -> None:
        """Change nothing: the build is forced."""

    def build(self) -> float:
        """Force a build of all; its time is that which the installation notes, so questions need not be frequent."""
        number = self.stack.start_build(*self.targets, force=True)["id"]
        deadline = time.monotonic() + LIMIT_S
        while (build := self.stack.call("GET", f"/builds/{number}"))["state"] in {"RESOLVING", "RUNNING"}:
            if time.monotonic() > deadline:
                raise SystemExit(f"build {number} took longer than {LIMIT_S} s")
            time.sleep(1)
        self.ended = build
        started, ended = (datetime.fromisoformat(build[name]) for name in ("created_at", "finished_at"))
        return (ended - started).total_seconds()

    def check(self) -> None:
        """Stop unless every job was run."""
        states = Counter(job["state"] for job in self.ended["jobs"])
        if states != {"COMPLETED": self.jobs}:
            raise SystemExit(f"build {self.ended['id']} ended {self.ended['state']}: {states}")

    def find_roots(self) -> dict[int, str]:
        """Return the supervisor with its parts."""
        parts = {part["pid"]: name for name, part in self.stack.status().items() if part["pid"]}
        return {self.stack.parts["supervisor"].pid: "supervisor", **parts}


@dataclass
class Peer:
    """A project in a folder of its own, built by a command in a process that sees the peers' packages first."""

    name: str
    root: Path
    jobs: int
    schema: str
    """Where its tables are."""
    folder: Path = Path()
    rows: int = ROWS

    def prepare(self, number: int) -> None:
        """Make a project and its source table."""
        self.folder = self.root / f"{self.name}-{number}"
        (self.folder / "models").mkdir(parents=True)
        (self.folder / "raw.csv").write_text(make_csv())
        self.rows = ROWS
        self._ask(f"CREATE TABLE raw AS SELECT * FROM read_csv('{self.folder}/raw.csv')")

    def change(self) -> None:
        """Add a row."""
        self._ask(f"INSERT INTO raw VALUES ({self.rows}, 'x')")
        self.rows += 1

    def build(self) -> float:
        """Build all tables."""
        raise NotImplementedError

    def check(self) -> None:
        """Stop unless every table has the rows of the source table as it is now."""
        names = (f"{self.schema}.t{place}" for place in range(self.jobs))
        counts = " UNION ALL ".join(f"SELECT count(*) AS n FROM {name}" for name in names)
        self._ask(f"SELECT if(bool_and(n = {self.rows}), 1, error('a table has other rows')) FROM ({counts})")

    def _ask(self, statement: str) -> None:
        self.run("-c", f"import duckdb; duckdb.connect('{self.folder}/bench.duckdb').execute({statement!r})")

    def find_roots(self) -> dict[int, str]:
        """Nothing of it outlives a build."""
        return {}

    def run(self, *arguments: str) -> float:
        """Run Python; return the seconds."""
        environment = {**os.environ, **SILENT, "HOME": str(self.folder), "PYTHONPATH": str(PACKAGES)}
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *arguments],
            check=False,
            capture_output=True,
            text=True,
            env=environment,
            cwd=self.folder,
            timeout=LIMIT_S,
        )
        if done.returncode:
            raise PeerFailed(f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}".strip())
        return time.perf_counter() - started


class PeerFailed(Exception):
    """What a peer said that cannot run."""


class Dbt(Peer):
    """`dbt run` of tables in DuckDB."""

    def prepare(self, number: int) -> None:
        """Make one model for each table."""
        super().prepare(number)
        (self.folder / "dbt_project.yml").write_text(
            "name: bench\nprofile: bench\nversion: '1.0'\nmodels: {+materialized: table}\n"
        )
        output = f"{{type: duckdb, path: {self.folder}/bench.duckdb, threads: {THREADS}}}"
        (self.folder / "profiles.yml").write_text(f"bench: {{target: dev, outputs: {{dev: {output}}}}}\n")
        for place in range(self.jobs):
            (self.folder / "models" / f"t{place}.sql").write_text("SELECT * FROM raw\n")

    def build(self) -> float:
        """Run all models."""
        return self.run("-m", "dbt.cli.main", "run", "--quiet", "--profiles-dir", str(self.folder))


class SqlMesh(Peer):
    """`sqlmesh plan` of tables in DuckDB; those that are there already are computed again."""

    def prepare(self, number: int) -> None:
        """Make one model for each table."""
        super().prepare(number)
        self.is_new = True
        (self.folder / "config.yaml").write_text(
            f"gateways: {{dev: {{connection: {{type: duckdb, database: {self.folder}/bench.duckdb, "
            f"concurrent_tasks: {THREADS}}}}}}}\ndefault_gateway: dev\nmodel_defaults: {{dialect: duckdb}}\n"
        )
        for place in range(self.jobs):
            (self.folder / "models" / f"t{place}.sql").write_text(
                f"MODEL (name shop.t{place}, kind FULL);\nSELECT a, b FROM bench.main.raw\n"
            )

    def build(self) -> float:
        """Plan and apply."""
        again = [] if self.is_new else [f"--restate-model=shop.t{place}" for place in range(self.jobs)]
        self.is_new = False
        return self.run("-c", "from sqlmesh.cli.main import cli; cli()", "plan", "--auto-apply", "--no-prompts", *again)


def make_csv() -> str:
    """Return the source table."""
    return "a,b\n" + "".join(f"{number},x\n" for number in range(ROWS))


def compete(contenders: Sequence[Contender], *, repeat: int) -> dict[str, list[Result]]:
    """Let every contender build in turn, so that all of them meet the host's other work."""
    results: dict[str, list[Result]] = {"new": [], "again": []}
    able = list(contenders)
    for number in range(repeat):
        for contender in list(able):
            try:
                contender.prepare(number)
                for kind, found in results.items():
                    _note(found, contender)
            except (PeerFailed, subprocess.TimeoutExpired) as error:
                print(f"{contender.name} cannot run here: {error}")
                able.remove(contender)
    return results


def _note(results: list[Result], contender: Contender) -> None:
    contender.change()
    before = measure(contender.find_roots())
    wall = contender.build()
    spent = measure(contender.find_roots()).since(before)
    contender.check()
    result = next((result for result in results if result.name == contender.name), None)
    if result is None:
        results.append(result := Result(contender.name))
    result.walls.append(wall)
    result.spent.append(spent)


def show(results: Sequence[Result], kind: str, *, jobs: int) -> None:
    """Print one line for each contender, and where our processor time goes."""
    ours = results[0]
    print(f"\n{jobs} independent trivial tables, {kind}, in one build; medians of {len(ours.walls)}")
    print(f"{'':<14}{'wall s':>9}{'processor s':>13}{'ms a table':>12}{'our wall':>10}{'our processor':>15}")
    for result in results:
        print(
            f"{result.name:<14}{result.wall:>9.2f}{result.processor:>13.2f}{1000 * result.processor / jobs:>12.0f}"
            f"{ours.wall / result.wall:>9.2f}x{ours.processor / result.processor:>14.2f}x"
        )
    print(f"goal: {GOAL_S} processor seconds a table; measured : goal {ours.processor / jobs / GOAL_S:.2f}")
    sums: defaultdict[str, float] = defaultdict(float)
    for spent in ours.spent:
        for name, seconds in spent.parts.items():
            sums[name] += 1000 * seconds / jobs / len(ours.spent)
    parts = sorted(sums.items(), key=lambda part: -part[1])
    print("processor ms a table by process: ", end="")
    print(", ".join(f"{name} {each:.1f}" for name, each in parts if each >= SHOWN_MS))
