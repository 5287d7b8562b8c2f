"""Mixed load: PyIceberg writers on branches, uploads and builds, pull requests that are built, approved and merged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

from tests.factories.builds import HEAD, PIPELINE, make_transform
from tests.factories.supervised import SupervisedStack
from tests.faults.client import Client
from tests.faults.faults import DAMAGED
from tests.faults.ledger import Ledger

BRANCHES: tuple[str | None, ...] = (None, "side/a", "side/b")
TABLE = "plain.orders"
RULES = PIPELINE + '\n[datasets."/shop/totals"]\nkey = ["id"]\n'
ROWS = pa.schema([("id", pa.string())])


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
    appended: dict[str | None, Ledger] = field(default_factory=dict)
    uploaded: Ledger = field(default_factory=lambda: Ledger("uploads"))
    merged: Ledger = field(default_factory=lambda: Ledger("merges"))
    builds: dict[int, float] = field(default_factory=dict)
    """When each build was accepted, by the clock that only goes forward."""
    failures: list[BaseException] = field(default_factory=list)
    raw: str = ""
    """The number of the dataset that uploads go to."""

    def prepare(self) -> None:
        """Make the repository, the table and the first rows, before any fault."""
        catalog = self._catalog(None)
        catalog.create_namespace("plain")
        for name in (TABLE, f"plain.{DAMAGED}"):
            catalog.create_table(name, schema=ROWS)
        self._must(self.author.post("/repositories", json={"name": "shop", "template": "empty"}), 201)
        self._must(self.author.post("/repositories/shop/members", json={"user": "rita", "role": "maintainer"}), 201)
        self.raw = str(self._must(self.author.post("/datasets", json={"path": "/shop/raw"}), 201)["id"])
        self._upload()
        self._commit("master", {"pipeline.toml": RULES, "pipelines/shop.py": source(1)})
        self._build("master")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let everybody work until the block ends; then raise what went wrong."""
        over = threading.Event()
        rounds = [
            *(self._appends(branch) for branch in BRANCHES),
            self._uploads_and_builds,
            self._pull_requests(),
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
        if self.failures:
            raise self.failures[0]
        assert not any(thread.is_alive() for thread in threads), "a client waits for ever"

    def check(self) -> None:
        """Compare what is there with what was told."""
        for branch, ledger in self.appended.items():
            table = self._catalog(branch).load_table(TABLE)
            inherited = set() if branch is None else self.appended[None].outcomes
            ledger.check(table.scan().to_arrow()["id"].to_pylist(), inherited=inherited)
        raw = self._catalog(None).load_table("shop.raw")
        self.uploaded.check(raw.scan().to_arrow()["id"].to_pylist())
        answer = self.author.send("GET", "/repositories/shop/contents/notes?ref=master")
        notes = [] if answer.status_code == 404 else answer.json()
        self.merged.check(entry["name"] for entry in notes)

    def summary(self) -> str:
        """Say how much was done."""
        ledgers = [*self.appended.values(), self.uploaded, self.merged]
        return "; ".join([*(ledger.summary() for ledger in ledgers), f"builds: {len(self.builds)}"])

    # --- who works ---------------------------------------------------------------------------------------------------

    def _repeat(self, round_: Callable[[], None], over: threading.Event) -> None:
        try:
            while not over.is_set():
                round_()
                over.wait(0.2)
        except BaseException as error:  # noqa: BLE001 - told to the thread that waits
            self.failures.append(error)

    def _appends(self, branch: str | None) -> Callable[[], None]:
        ledger = self.appended.setdefault(branch, Ledger(f"rows on {branch or 'master'}"))

        def append() -> None:
            key = uuid4().hex
            try:
                table = self._catalog(branch).load_table(TABLE)
            except Exception:  # noqa: BLE001 - nothing was written, whatever went wrong
                return
            try:
                table.append(pa.table({"id": [key]}, schema=ROWS))
            except CommitFailedException:
                ledger.note(key, "refused")
            except Exception:  # noqa: BLE001 - the client cannot know
                ledger.note(key, "unknown")
            else:
                ledger.note(key, "acknowledged")

        return append

    def _uploads_and_builds(self) -> None:
        self._upload()
        self._build("master")

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
            merge = self.author.post(f"{at}/merge", json={"rebuild": "modified"})
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

    def _upload(self) -> None:
        key = uuid4().hex
        answer = self.author.post(
            f"/datasets/{self.raw}/upload?branch=master&mode=append", files={"file": ("rows.csv", f"id\n{key}\n")}
        )
        if is_lost(answer):
            self.uploaded.note(key, "unknown")
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

    def _wait(self, build: int) -> str:
        """Wait for the end of a build; its state."""
        deadline = time.monotonic() + 150
        while (state := self.author.get(f"/builds/{build}")["state"]) in {"RESOLVING", "RUNNING"}:
            assert time.monotonic() < deadline, f"build {build} does not end"
            time.sleep(0.5)
        return str(state)

    def _catalog(self, branch: str | None) -> Any:
        header = {} if branch is None else {"header.X-PLTR-Branch": branch}
        uri = f"http://127.0.0.1:{self.stack.port}/iceberg"
        return load_catalog("faults", type="rest", uri=uri, token=self.author.token, **header)

    @staticmethod
    def _must(answer: Any, status: int) -> Any:
        if is_lost(answer):
            raise Lost
        assert answer.status_code == status, f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text}"
        return answer.json()
