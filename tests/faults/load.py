"""Mixed load: PyIceberg and Spark writers, uploads, builds, pull requests that are merged, row diffs, wrong clocks."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyiceberg.catalog import load_catalog

from tests.factories.builds import HEAD, PIPELINE, ROOT, make_transform
from tests.factories.supervised import SupervisedStack
from tests.faults.appender import ROWS, append_row
from tests.faults.barrier import Barrier
from tests.faults.client import Client
from tests.faults.comparisons import Comparer
from tests.faults.faults import DAMAGED, JUMPS, client_clock, prepare_damage
from tests.faults.ledger import Ledger, Outcome
from tests.faults.spark_writer import SparkWriter

BRANCHES: tuple[str | None, ...] = (None, "side/a", "side/b")
TABLE = "plain.orders"
COMPARED = ("/plain/orders", "/shop/raw", "/shop/totals")
RULES = PIPELINE + '\n[datasets."/shop/totals"]\nkey = ["id"]\n'
TRIES = 4
MOST_WAITING = 3
"""Builds that one client lets wait: more would measure a queue that grows, not how an installation recovers."""


class Lost(Exception):
    """The act was done, but the process that did it was killed before it could answer."""


def is_lost(answer: Any) -> bool:
    """Whether the answer says that the act was done by a process that died."""
    return answer.status_code == 409 and bool(answer.json()["code"] == "idempotency_done")


def source(factor: int) -> str:
    """Return a pipeline of two transforms; the factor is what a pull request changes."""
    first = f'rows = i0.arrow()\nout.write_table(rows.append_column("factor", pa.array([{factor}] * len(rows))))'
    return (
        HEAD
        + make_transform("totals", inputs=["/shop/raw"], output="/shop/totals", body=first)
        + make_transform("report", inputs=["/shop/totals"], output="/shop/report", body="out.write_table(i0.arrow())")
    )


@dataclass
class Load:
    """The clients of one run, and what they were told."""

    stack: SupervisedStack
    author: Client
    reviewer: Client
    operator: Client
    """Looks on, also while nobody else may work."""
    barrier: Barrier
    """What author, reviewer and writers pass before each act."""
    dice: random.Random
    with_spark: bool = False
    pause: float = 0.2
    """Seconds between what one client does and what it does next."""
    appended: dict[str | None, Ledger] = field(default_factory=dict)
    uploaded: Ledger = field(default_factory=lambda: Ledger("uploads"))
    merged: Ledger = field(default_factory=lambda: Ledger("merges"))
    rows: Counter[str] = field(default_factory=Counter)
    """What each kind of writer of rows was told, how often."""
    builds: dict[int, float] = field(default_factory=dict)
    """When each build was accepted, by the clock that only goes forward."""
    failures: list[BaseException] = field(default_factory=list)
    raw: str = ""
    """The number of the dataset that uploads go to."""
    comparer: Comparer = field(init=False)
    _writers: dict[tuple[str, str | None], Callable[[str], tuple[Outcome, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.appended = {branch: Ledger(f"rows on {branch or 'master'}") for branch in BRANCHES}
        self.comparer = Comparer(self.author, self._catalog, random.Random(self.dice.random()))

    def prepare(self) -> None:
        """Make the repository, the table and the first rows, before any fault."""
        catalog = self._catalog(None)
        catalog.create_namespace("plain")
        for name in (TABLE, f"plain.{DAMAGED}"):
            catalog.create_table(name, schema=ROWS)
        for key in ("first", "second"):
            append_row(self._uri, self.author.token, f"plain.{DAMAGED}", key)
        self._must(self.author.post("/repositories", json={"name": "shop", "template": "empty"}), 201)
        self._must(self.author.post("/repositories/shop/members", json={"user": "rita", "role": "maintainer"}), 201)
        self.raw = str(self._must(self.author.post("/datasets", json={"path": "/shop/raw"}), 201)["id"])
        self._upload()
        self._commit("master", {"pipeline.toml": RULES, "pipelines/shop.py": source(1)})
        self._build("master")
        prepare_damage(self.stack)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let everybody work until the block ends; then raise what went wrong."""
        over = threading.Event()
        astray = self._start_appender()
        rounds = [
            *(self._appends(branch) for branch in BRANCHES),
            self._uploads_and_builds,
            self._pull_requests(),
            self._comparisons(),
            self._appends_by(astray),
            *([self._appends_by_spark()] if self.with_spark else []),
        ]
        threads = [threading.Thread(target=self._repeat, args=(round_, over), daemon=True) for round_ in rounds]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(180)
            astray.kill()
            astray.wait()
        self.raise_failures()
        assert not any(thread.is_alive() for thread in threads), "a client waits for ever"

    def raise_failures(self) -> None:
        """Raise what a client met that no fault excuses."""
        if self.failures:
            raise self.failures[0]

    def check_writers(self) -> None:
        """Let every kind of writer write once, after a fault and with clocks that are right: nothing keeps it from that."""
        for (kind, branch), act in self._writers.items():
            for _ in range(TRIES):
                key = uuid4().hex
                outcome, why = act(key)
                self.appended[branch].note(key, outcome)
                if outcome == "acknowledged":
                    break
            else:
                raise AssertionError(f"{kind} cannot write to {branch or 'master'} any more: {why}")

    def check(self) -> None:
        """Compare what is there with what was told."""
        for branch, ledger in self.appended.items():
            table = self._catalog(branch).load_table(TABLE)
            inherited = set() if branch is None else self.appended[None].outcomes
            ledger.check(table.scan().to_arrow()["id"].to_pylist(), inherited=inherited)
        raw = self._catalog(None).load_table("shop.raw")
        self.uploaded.check(raw.scan().to_arrow()["id"].to_pylist())
        answer = self.operator.send("GET", "/repositories/shop/contents/notes?ref=master")
        notes = [] if answer.status_code == 404 else answer.json()
        self.merged.check(entry["name"] for entry in notes)

    def summary(self) -> str:
        """Say how much was done."""
        ledgers = [*self.appended.values(), self.uploaded, self.merged]
        rows = ", ".join(f"{count} {kind}" for kind, count in sorted(self.rows.items()))
        diffs = ", ".join(f"{count} of {path}" for path, count in sorted(self.comparer.checked.items()))
        return "; ".join(
            [
                *(ledger.summary() for ledger in ledgers),
                f"writers: {rows}",
                f"builds: {len(self.builds)}",
                f"row diffs: {diffs or 'none'}, {self.comparer.repeated} asked for again",
            ]
        )

    # --- who works ---------------------------------------------------------------------------------------------------

    def _repeat(self, round_: Callable[[], None], over: threading.Event) -> None:
        try:
            while not over.is_set():
                round_()
                over.wait(self.pause)
        except BaseException as error:  # noqa: BLE001 - raised again by `raise_failures`, in the thread that waits
            self.failures.append(error)

    def _append(self, kind: str, branch: str | None, act: Callable[[str], tuple[Outcome, str]]) -> None:
        """Write one row, and note what the writer was told."""
        ledger, key = self.appended[branch], uuid4().hex
        with self.barrier.passing():
            ledger.note(key, "unknown")
            outcome, why = act(key)
            ledger.note(key, outcome)
        self.rows[f"{outcome} by {kind}{why and f' ({why})'}"] += 1

    def _appends(self, branch: str | None) -> Callable[[], None]:
        def act(key: str) -> tuple[Outcome, str]:
            return append_row(self._uri, self.author.token, TABLE, key, branch)

        self._writers["PyIceberg", branch] = act
        return lambda: self._append("PyIceberg", branch, act)

    def _appends_by_spark(self) -> Callable[[], None]:
        writer = SparkWriter(self._uri, self.author.token, TABLE)
        self._writers["Spark", None] = writer.append
        return lambda: self._append("Spark", None, writer.append)

    def _start_appender(self) -> subprocess.Popen[str]:
        """Start a writer whose clock can be wrong."""
        command = [sys.executable, "-m", "tests.faults.appender", self._uri, self.author.token, TABLE]
        environment = os.environ | client_clock(self.stack)
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _appends_by(self, astray: subprocess.Popen[str]) -> Callable[[], None]:
        clock = Path(client_clock(self.stack)["CLOCK_SHIFT"])
        dice = random.Random(self.dice.random())

        def say(key: str) -> tuple[Outcome, str]:
            print(key, file=astray.stdin, flush=True)
            assert astray.stdout
            outcome: Any
            outcome, _, why = astray.stdout.readline().strip().partition(" ")
            assert outcome, "the writer with a wrong clock ended"
            return outcome, why

        def append() -> None:
            shift = dice.choice((0, *JUMPS))
            clock.write_text(str(shift))
            time.sleep(1)  # the clock looks for its shift once a second
            self._append(f"a clock {shift} s off", None, say)

        return append

    def _comparisons(self) -> Callable[[], None]:
        dice = random.Random(self.dice.random())
        return lambda: self.comparer.compare(dice.choice(COMPARED))

    def _uploads_and_builds(self) -> None:
        self._upload()
        self._build("master")
        waiting = [build for build in list(self.builds)[-MOST_WAITING:] if not self._has_ended(build)]
        if len(waiting) == MOST_WAITING:
            self._wait(waiting[0])

    def _pull_requests(self) -> Callable[[], None]:
        numbers = iter(range(1, 10_000))

        def open_and_merge() -> None:
            number = next(numbers)
            branch, note = f"change/{number}", f"{number}.md"
            self._must(
                self.author.post("/repositories/shop/branches", json={"name": branch, "start_point": "master"}), 201
            )
            self._commit(branch, {f"notes/{note}": f"Change {number}\n", "pipelines/shop.py": source(number + 1)})
            self._wait(self._build(branch))
            body = {"title": f"Change {number}", "source": branch}
            pull = self._must(self.author.post("/repositories/shop/pulls", json=body), 201)["number"]
            at = f"/repositories/shop/pulls/{pull}"
            self._must(self.reviewer.post(f"{at}/reviews", json={"verdict": "approve"}), 201)
            self.merged.note(note, "unknown")
            merge = self._merge(at)
            if merge.status_code == 202:
                self.builds[merge.json()["build"]["id"]] = time.monotonic()
            landed = self.author.get(at)["state"] == "merged"
            self.merged.note(note, "acknowledged" if landed else "refused")

        def open_and_merge_or_give_up() -> None:
            try:
                open_and_merge()
            except Lost:
                return

        return open_and_merge_or_give_up

    def _merge(self, at: str) -> Any:
        """Ask for a merge; one whose process died on the way goes on by itself, and is asked for again until it has."""
        deadline = time.monotonic() + 60
        while True:
            merge = self.author.post(f"{at}/merge", json={"rebuild": "modified"})
            is_under_way = merge.status_code == 409 and merge.json()["code"] == "merge_running"
            if not is_under_way:
                return merge
            assert time.monotonic() < deadline, f"the merge of {at} does not go on"
            time.sleep(0.5)

    def _upload(self) -> None:
        key = uuid4().hex
        self.uploaded.note(key, "unknown")
        answer = self.author.post(
            f"/datasets/{self.raw}/upload?branch=master&mode=append", files={"file": ("rows.csv", f"id\n{key}\n")}
        )
        if is_lost(answer):
            return
        taken = answer.status_code == 201 or (
            answer.status_code == 202 and self._wait(answer.json()["id"]) == "COMPLETED"
        )
        self.uploaded.note(key, "acknowledged" if taken else "refused")

    def _build(self, branch: str) -> int:
        body = {"branch": branch, "targets": ["/shop/report"], "upstream": True}
        answer = self.author.post("/builds", json=body)
        if is_lost(answer):
            number = int(answer.json()["object"].removeprefix("build "))
        else:
            number = int(self._must(answer, 202)["id"])
        self.builds[number] = time.monotonic()
        return number

    def _commit(self, branch: str, files: dict[str, str]) -> None:
        changes = [{"path": path, "content": content} for path, content in files.items()]
        body = {"branch": branch, "message": "Change the pipeline", "changes": changes}
        self._must(self.author.post("/repositories/shop/commits", json=body), 201)

    def _has_ended(self, build: int) -> bool:
        return self.author.get(f"/builds/{build}")["state"] not in {"RESOLVING", "RUNNING"}

    def _wait(self, build: int) -> str:
        """Wait for the end of a build; its state."""
        deadline = time.monotonic() + 300
        while not self._has_ended(build):
            assert time.monotonic() < deadline, f"build {build} does not end"
            time.sleep(0.5)
        return str(self.author.get(f"/builds/{build}")["state"])

    @property
    def _uri(self) -> str:
        return f"http://127.0.0.1:{self.stack.port}/iceberg"

    def _catalog(self, branch: str | None) -> Any:
        header = {} if branch is None else {"header.X-PLTR-Branch": branch}
        return load_catalog("faults", type="rest", uri=self._uri, token=self.author.token, **header)

    @staticmethod
    def _must(answer: Any, status: int) -> Any:
        if is_lost(answer):
            raise Lost
        assert answer.status_code == status, f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text}"
        return answer.json()
