"""Four people who use an installation day in, day out: each has an account, a way to work, and what every answer said.

What they work on is renewed now and then, as in life: what one thing costs as it grows is measured elsewhere, and here
only what stays behind when nothing grows.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import requests
from pyiceberg.catalog import load_catalog

from tests.factories.browsing import sign_in
from tests.factories.builds import HEAD, PASSWORD, make_transform
from tests.factories.supervised import SupervisedStack
from tests.faults.barrier import Barrier
from tests.faults.client import Client
from tests.faults.comparisons import Comparer

NAMES = ("ada", "rita", "cleo", "dan")
PULLS_OF_A_SHOP = 12
COMMITS_OF_A_TABLE = 30
ROWS = pa.schema([("id", pa.string())])
BRANCHES = (None, "side/a", "side/b")
MERGED_S = 300


@dataclass(frozen=True)
class Shop:
    """A repository with a dataset that is uploaded and two that are built."""

    name: str
    raw: int

    @property
    def api(self) -> str:
        """Where the REST API has it."""
        return f"/repositories/{self.name}"


def write_source(shop: str, factor: int) -> str:
    """Return a pipeline of two transforms; the factor is what a pull request changes."""
    first = f'rows = i0.arrow()\nout.write_table(rows.append_column("factor", pa.array([{factor}] * len(rows))))'
    return (
        HEAD
        + make_transform("totals", inputs=[f"/{shop}/raw"], output=f"/{shop}/totals", body=first)
        + make_transform(
            "report", inputs=[f"/{shop}/totals"], output=f"/{shop}/report", body="out.write_table(i0.arrow())"
        )
    )


@dataclass
class People:
    """Ada changes pipelines, Rita reviews and merges, Cleo brings rows, Dan reads."""

    stack: SupervisedStack
    dice: random.Random
    pause: float
    """Seconds that each of them thinks after each round."""
    answers: Counter[int] = field(default_factory=Counter)
    """How often each status came, of pages, REST and catalog; 0 where no answer did."""
    silences: list[str] = field(default_factory=list)
    """What had no answer, for the log."""
    rounds: Counter[str] = field(default_factory=Counter)
    barrier: Barrier = field(default_factory=Barrier)
    failures: list[BaseException] = field(default_factory=list)
    clients: dict[str, Client] = field(default_factory=dict)
    shop: Shop = field(init=False)

    def prepare(self) -> None:
        """Make the four accounts and the first repository."""
        operator = Client(self.stack.url, self.stack.token)
        for name in NAMES:
            take(operator.post("/users", json={"username": name, "password": PASSWORD}), 201)
            answer = requests.post(
                f"{self.stack.url}/tokens", json={"name": "tests"}, auth=(name, PASSWORD), timeout=30
            )
            token = take(answer, 201)["token"]
            self.clients[name] = Client(self.stack.url, token, self.barrier, self.answers, self.silences)
        self.shop = self._open_shop(1)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let all four work until the block ends; then raise what went wrong."""
        rounds = {"ada": self._changes(), "rita": self._reviews(), "cleo": self._rows(), "dan": self._reads()}
        over = {name: threading.Event() for name in rounds}
        threads = {
            name: threading.Thread(target=self._repeat, args=(name, round_, over[name]), daemon=True)
            for name, round_ in rounds.items()
        }
        for thread in threads.values():
            thread.start()
        try:
            yield
        finally:
            # One after the other, Ada first: what she has proposed is merged by Rita, and by nobody else.
            for name, thread in threads.items():
                over[name].set()
                thread.join(MERGED_S)
        self.raise_failures()
        waiting = [name for name, thread in threads.items() if thread.is_alive()]
        assert not waiting, f"{', '.join(waiting)} waits for ever"

    def raise_failures(self) -> None:
        """Raise what somebody met."""
        if self.failures:
            raise self.failures[0]

    def _repeat(self, name: str, round_: Callable[[], None], over: threading.Event) -> None:
        try:
            while not over.is_set():
                round_()
                self.rounds[name] += 1
                over.wait(self.pause)
        except BaseException as error:  # noqa: BLE001 - raised again by `raise_failures`, in the thread that waits
            self.failures.append(error)

    # --- Ada: a branch, a commit, a build, a pull request --------------------------------------------------------------

    def _changes(self) -> Callable[[], None]:
        numbers = count(1)

        def change() -> None:
            number = next(numbers)
            if number % PULLS_OF_A_SHOP == 0:
                self.shop = self._open_shop(number // PULLS_OF_A_SHOP + 1)
            self._propose(self.shop, number)

        return change

    def _open_shop(self, number: int) -> Shop:
        ada, name = self.clients["ada"], f"shop{number}"
        take(ada.post("/repositories", json={"name": name, "template": "empty"}), 201)
        for user, role in {"rita": "maintainer", "cleo": "maintainer", "dan": "reader"}.items():
            take(ada.post(f"/repositories/{name}/members", json={"user": user, "role": role}), 201)
        shop = Shop(name, take(ada.post("/datasets", json={"path": f"/{name}/raw"}), 201)["id"])
        self._upload(shop)
        rules = f'[pipeline]\npackages = ["pipelines"]\nfolders = ["/{name}"]\n\n[datasets."/{name}/totals"]\nkey = ["id"]\n'
        self._commit(shop, "master", {"pipeline.toml": rules, "pipelines/shop.py": write_source(name, 1)})
        self._build(shop, "master")
        return shop

    def _propose(self, shop: Shop, number: int) -> None:
        ada, branch = self.clients["ada"], f"change/{number}"
        take(ada.post(f"{shop.api}/branches", json={"name": branch, "start_point": "master"}), 201)
        self._commit(shop, branch, {"pipelines/shop.py": write_source(shop.name, number + 1)})
        self._build(shop, branch)
        pull = take(ada.post(f"{shop.api}/pulls", json={"title": f"Change {number}", "source": branch}), 201)["number"]
        take(ada.post(f"{shop.api}/pulls/{pull}/comments", json={"body": "Please look at the factor."}), 201)
        self._wait(lambda: ada.get(f"{shop.api}/pulls/{pull}")["state"] != "open")
        take(ada.send("DELETE", f"{shop.api}/branches/{branch}"), 204)

    # --- Rita: reads what is proposed, approves, merges ----------------------------------------------------------------

    def _reviews(self) -> Callable[[], None]:
        browser = self._browse("rita")

        def review() -> None:
            shop, rita = self.shop, self.clients["rita"]
            for pull in rita.get(f"{shop.api}/pulls?state=open")["results"]:
                page = f"/r/{shop.name}/pulls/{pull['number']}"
                for tab in ("", "/commits", "/code", "/schema", "/data", "/builds"):
                    browser(page + tab)
                self._merge(f"{shop.api}/pulls/{pull['number']}")

        return review

    def _merge(self, pull: str) -> None:
        rita = self.clients["rita"]
        take(rita.post(f"{pull}/reviews", json={"verdict": "approve"}), 201)
        merge = rita.post(f"{pull}/merge", json={"rebuild": "modified"})
        if merge.status_code == 202:
            self._wait_for_build(rita, merge.json()["build"]["id"])

    # --- Cleo: uploads, and rows by PyIceberg ----------------------------------------------------------------------------

    def _rows(self) -> Callable[[], None]:
        numbers = count()
        catalogs = {branch: self._open_catalog(branch) for branch in BRANCHES}
        main = catalogs[None]
        main.create_namespace("cleo")

        def bring_rows() -> None:
            number = next(numbers)
            table = f"cleo.rows{number // COMMITS_OF_A_TABLE}"
            if number % COMMITS_OF_A_TABLE == 0:
                self._renew_table(main, table, number // COMMITS_OF_A_TABLE - 1)
            for catalog in catalogs.values():
                with self.barrier.passing():
                    loaded = catalog.load_table(table)
                    loaded.append(pa.table({"id": [f"row {number}"]}, schema=ROWS))
                    loaded.scan().to_arrow()
            self._upload(self.shop)

        return bring_rows

    def _renew_table(self, catalog: Any, name: str, before: int) -> None:
        with self.barrier.passing():
            catalog.create_table(name, schema=ROWS)
            if before >= 0:
                catalog.purge_table(f"cleo.rows{before}")

    def _upload(self, shop: Shop) -> None:
        user = self.clients["cleo"]
        text = "id\n" + "".join(f"{self.dice.randrange(1000)}-{number}\n" for number in range(50))
        answer = user.post(
            f"/datasets/{shop.raw}/upload?branch=master&mode=snapshot", files={"file": ("rows.csv", text)}
        )
        if answer.status_code == 202:
            self._wait_for_build(user, answer.json()["id"])
        else:
            take(answer, 201)

    # --- Dan: pages, comparisons, streams, clones ------------------------------------------------------------------------

    def _reads(self) -> Callable[[], None]:
        browser, dan = self._browse("dan"), self.clients["dan"]
        comparer = Comparer(dan, self._open_catalog, self.dice)

        def read() -> None:
            shop = self.shop
            at = f"/r/{shop.name}"
            for page in ("/", "/repositories", "/datasets", "/builds", "/pulls", "/search?q=shop", f"{at}/", f"{at}/commits/master",
                         f"{at}/branches", f"{at}/jobspecs", f"{at}/datasets", f"{at}/builds", f"/d/{shop.name}/totals?tab=history",
                         f"/d/{shop.name}/report", f"/d/{shop.name}/report?tab=catalog"):  # fmt: skip
                browser(page)
            dan.get(f"/datasets/{shop.raw}/preview")
            comparer.compare(f"/{shop.name}/raw")
            self._listen(dan.get("/builds")["results"][0]["id"])
            self._clone(shop)

        return read

    def _listen(self, build: int) -> None:
        """Look at a build's events for a moment, and go."""
        browser = self._sign_in("dan")
        with (
            self.barrier.passing(),
            browser.get(f"{self._host}/events/builds/{build}", stream=True, timeout=30) as answer,
        ):
            self.answers[answer.status_code] += 1
            next(answer.iter_content(1), b"")

    def _clone(self, shop: Shop) -> None:
        address = f"http://dan:{self.clients['dan'].token}@127.0.0.1:{self.stack.port}/git/{shop.name}.git"
        with tempfile.TemporaryDirectory() as folder, self.barrier.passing():
            subprocess.run(
                ["git", "clone", "-q", address, str(Path(folder) / "clone")], check=True, capture_output=True
            )

    # --- what several of them do -----------------------------------------------------------------------------------------

    @property
    def _host(self) -> str:
        return f"http://127.0.0.1:{self.stack.port}"

    def _sign_in(self, name: str) -> requests.Session:
        session = sign_in(self._host, name, PASSWORD)
        session.hooks["response"].append(self._note)
        return session

    def _browse(self, name: str) -> Callable[[str], None]:
        """Sign in; what opens a page and reads it to its end."""
        session = self._sign_in(name)

        def open_page(path: str) -> None:
            with self.barrier.passing():
                answer = session.get(self._host + path, timeout=60)
            assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:500]}"

        return open_page

    def _open_catalog(self, branch: str | None) -> Any:
        header = {} if branch is None else {"header.X-PLTR-Branch": branch}
        token = self.clients["cleo"].token
        catalog = load_catalog("people", type="rest", uri=f"{self._host}/iceberg", token=token, **header)
        catalog._session.hooks["response"].append(self._note)
        return catalog

    def _note(self, answer: requests.Response, **_more: Any) -> None:
        self.answers[answer.status_code] += 1

    def _commit(self, shop: Shop, branch: str, files: dict[str, str]) -> None:
        changes = [{"path": path, "content": content} for path, content in files.items()]
        body = {"branch": branch, "message": "Change the pipeline", "changes": changes}
        ada = self.clients["ada"]
        sha = take(ada.post(f"{shop.api}/commits", json=body), 201)["sha"]
        self._wait(lambda: ada.get(f"{shop.api}/commits/{sha}")["published"]["status"] != "pending")

    def _build(self, shop: Shop, branch: str) -> None:
        ada = self.clients["ada"]
        body = {"branch": branch, "targets": [f"/{shop.name}/report"], "upstream": True}
        self._wait_for_build(ada, take(ada.post("/builds", json=body), 202)["id"])

    def _wait_for_build(self, user: Client, build: int) -> None:
        self._wait(lambda: user.get(f"/builds/{build}")["state"] not in {"RESOLVING", "RUNNING"})

    def _wait(self, is_true: Callable[[], bool]) -> None:
        """Ask until it holds; that nothing ends is found by the limit of the test."""
        while not is_true():
            self.raise_failures()
            threading.Event().wait(0.3)


def take(answer: requests.Response, status: int) -> Any:
    """The JSON of an answer, which has this status."""
    assert answer.status_code == status, f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else None
