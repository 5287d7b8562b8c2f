"""A whole installation for build tests: real web, worker, sweep and fork server in a home of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import requests

from tests.factories.databases import prepare
from tests.factories.postgres import ask_database, database_of
from webapp.runtime.hosts import name_host
from webapp.runtime.probes import find_free_port
from webapp.runtime.workers import THREADS

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "a-password-of-tests-1"
PIPELINE = '[pipeline]\npackages = ["pipelines"]\nfolders = ["/shop"]\n'
HEAD = "from transforms.api import transform\nfrom transforms.tables import TableInput, TableOutput\nimport pyarrow as pa\n\n"


def make_transform(name: str, *, inputs: Sequence[str] = (), output: str, body: str) -> str:
    """Return the source of a light transform; `body` sees its inputs as i0, i1 … and its output as `out`."""
    declared = ", ".join(
        [*(f'i{n}=TableInput("{path}")' for n, path in enumerate(inputs)), f'out=TableOutput("{output}")']
    )
    arguments = ", ".join([*(f"i{n}" for n in range(len(inputs))), "out"])
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"@transform.using({declared})\ndef {name}({arguments}):\n{lines}\n\n\n"


@dataclass
class Stack:
    """The parts, and a client of the REST API that is signed in as admin."""

    home: Path
    port: int
    more: dict[str, str] = field(default_factory=dict)
    parts: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    token: str = ""
    spark_port: int = field(default_factory=find_free_port)
    root: Path = ROOT
    """Where the code is that its parts run."""

    @property
    def url(self) -> str:
        """Where the REST API is."""
        return f"http://127.0.0.1:{self.port}/api/v1"

    @property
    def environment(self) -> dict[str, str]:
        """What every part but the fork server gets."""
        return {
            **os.environ,
            "TRIBUTARY_HOME": str(self.home),
            "TRIBUTARY_PORT": str(self.port),
            "TRIBUTARY_DEMO": "0",
            "TRIBUTARY_ADMIN_PASSWORD": PASSWORD,
            "DJANGO_SETTINGS_MODULE": "webapp.config.settings",
            "PYTHONUNBUFFERED": "1",
            **database_of(self.home),
            **self.more,
        }

    def start(self) -> None:
        """Prepare the home, start every part, wait until they answer."""
        (self.home / "run").mkdir(parents=True, exist_ok=True)
        prepare(self.home, self.environment, [sys.executable, "manage.py", "shell", "-v", "0", "-c", PREPARE])
        self.start_part("web")
        self.start_part("fork")
        for name in ("quick", "builds", "sweep"):
            self.start_part(name)
        wait_until(lambda: self.is_up(), seconds=60)
        answer = requests.post(f"{self.url}/tokens", json={"name": "tests"}, auth=("admin", PASSWORD), timeout=10)
        answer.raise_for_status()
        self.token = answer.json()["token"]
        wait_until(self.is_warm, seconds=60)

    def start_part(self, name: str) -> None:
        """Start one part, as the supervisor does."""
        commands = {
            "web": ["webapp.config.web", "--port", str(self.port)],
            "fork": ["jobs.entrypoints.forkserver", "--socket", str(self.home / "run" / "fork.sock")],
            "quick": ["celery", "-A", "webapp.config", "worker", "-Q", "quick", "-c", str(THREADS["quick"]), "-P", "threads", "--without-gossip", "--without-mingle", "--without-heartbeat", "-n", "quick@%h"],
            "builds": ["celery", "-A", "webapp.config", "worker", "-Q", "builds", "-c", str(THREADS["builds"]), "-P", "threads", "--without-gossip", "--without-mingle", "--without-heartbeat", "-n", "builds@%h"],
        }  # fmt: skip
        command = ["manage.py", "sweep"] if name == "sweep" else ["-m", *commands[name]]
        log = (self.home / f"{name}.log").open("ab")
        environment = {"PATH": os.environ["PATH"]} if name == "fork" else self.environment
        self.parts[name] = subprocess.Popen(
            [sys.executable, *command], cwd=self.root, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        log.close()

    def start_spark(self) -> None:
        """Start a Spark Connect server in its sandbox, as the supervisor does; every later part is told its address."""
        from tests.factories.spark import QUICK_JAVA
        from webapp.runtime import java
        from webapp.runtime.spark_classes import archive_path
        from webapp.runtime.spark_server import SparkServer
        from webapp.runtime.supervisor import RENEWED

        found, _ = java.find_java()
        assert found is not None
        with_s3 = self.more.get("TRIBUTARY_WAREHOUSE", "").startswith("s3:")
        archive = archive_path(found, with_s3=with_s3)
        server = SparkServer(
            java=found.program,
            folder=self.home / "spark",
            port=self.spark_port,
            token="a-token-of-tests",
            secrets=self.home,
            tables=(self.home / "warehouse", *([self.lake] if "TRIBUTARY_LOCATIONS" in self.more else [])),
            with_s3=with_s3,
            java_options=QUICK_JAVA,
            hosts=self._hosts_of_spark,
            archive=archive if archive.exists() else None,
        )
        server.prepare()
        log = (self.home / "spark.log").open("ab")
        again = f'while :; do "$@"; [ $? = {RENEWED} ] || break; done'
        self.parts["spark"] = subprocess.Popen(
            ["/bin/sh", "-c", again, "sh", *server.command],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"]} | server.environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        self.more.update(server.client_environment)

    @property
    def _hosts_of_spark(self) -> tuple[str, ...]:
        catalog = self.more.get("TRIBUTARY_CATALOG_URI", f"http://127.0.0.1:{self.port}/iceberg")
        store = self.more.get("TRIBUTARY_S3_ENDPOINT")
        return tuple(name_host(address) for address in (catalog, store) if address)

    def kill(self, name: str) -> None:
        """kill -9 of one part."""
        part = self.parts.pop(name)
        os.killpg(part.pid, signal.SIGKILL)
        part.wait()

    def kill_jobs(self) -> None:
        """kill -9 of every job's process; one may have ended meanwhile."""
        for keeper in _list_children(self.parts["fork"].pid):
            for process in _list_children(keeper):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def stop(self) -> None:
        """End every part."""
        for part in reversed(self.parts.values()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(part.pid, signal.SIGTERM)
        for part in self.parts.values():
            try:
                part.wait(timeout=5)
            except subprocess.TimeoutExpired:
                os.killpg(part.pid, signal.SIGKILL)
                part.wait()

    def is_up(self) -> bool:
        """Whether the web part answers and the fork server listens."""
        try:
            requests.get(f"{self.url}/builds", timeout=5)
        except (requests.ConnectionError, requests.Timeout):
            return False
        return (self.home / "run" / "fork.sock").exists()

    def is_warm(self) -> bool:
        """Whether the fork server has imported its libraries."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            if connection.connect_ex(str(self.home / "run" / "fork.sock")):
                return False  # it is about to listen
            connection.sendall(b'{"op": "status"}\n')
            return b'"ready": true' in connection.makefile("rb").readline()

    # --- the API ----------------------------------------------------------------------------------

    def call(self, method: str, path: str, *, expect: int | None = None, **more: Any) -> Any:
        """Send a request and return the JSON of its answer."""
        answer = self.request(method, path, **more)
        if expect is not None:
            assert answer.status_code == expect, f"{method} {path}: {answer.status_code} {answer.text}"
        elif answer.status_code >= 400:
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    def request(self, method: str, path: str, **more: Any) -> requests.Response:
        """Send a request."""
        return requests.request(
            method, f"{self.url}{path}", headers={"Authorization": f"Bearer {self.token}"}, timeout=60, **more
        )

    def fragment(self, path: str) -> str:
        """Return a part of a page as htmx asks for it, signed in as admin."""
        answer = self.browser.get(
            f"http://127.0.0.1:{self.port}{path}", headers={"HX-Request": "true", "Connection": "close"}, timeout=30
        )
        answer.raise_for_status()
        return answer.text

    @cached_property
    def browser(self) -> requests.Session:
        """One that signed in once: a password costs the web part more than most pages."""
        return self.open_browser("admin")

    def open_browser(self, username: str) -> requests.Session:
        """Return a session of a user who signed in with a password."""
        host = f"http://127.0.0.1:{self.port}"
        browser = requests.Session()
        browser.get(f"{host}/login", timeout=10).raise_for_status()
        token = browser.cookies[f"tributary_csrf_{self.port}"]
        form = {"username": username, "password": PASSWORD, "csrfmiddlewaretoken": token}
        browser.post(f"{host}/login", data=form, headers={"Referer": f"{host}/login"}, timeout=10).raise_for_status()
        return browser

    def sign_in(self, username: str, *, roles: Mapping[str, str]) -> Stack:
        """Make a user with these roles on repositories; return the installation as they use it."""
        self.call("POST", "/users", json={"username": username, "password": PASSWORD}, expect=201)
        for repository, role in roles.items():
            self.call("POST", f"/repositories/{repository}/members", json={"user": username, "role": role})
        answer = requests.post(f"{self.url}/tokens", json={"name": "tests"}, auth=(username, PASSWORD), timeout=30)
        answer.raise_for_status()
        return replace(self, token=answer.json()["token"])

    def make_repository(self, name: str = "shop") -> None:
        """Make a repository that owns the folder of its name."""
        self.call("POST", "/repositories", json={"name": name, "template": "empty"}, expect=201)

    def commit(
        self, files: Mapping[str, str | None], *, branch: str = "master", repository: str = "shop"
    ) -> dict[str, Any]:
        """Commit files (None deletes one) and wait until the commit is published."""
        changes = [
            {"path": path, "delete": True} if content is None else {"path": path, "content": content}
            for path, content in files.items()
        ]
        made = self.call(
            "POST",
            f"/repositories/{repository}/commits",
            json={"branch": branch, "message": "Change the pipeline", "changes": changes},
            expect=201,
        )
        return self.wait_for_publication(made["sha"], repository=repository)

    def wait_for_publication(self, sha: str, *, repository: str = "shop") -> dict[str, Any]:
        """Wait until a commit is published or failed, and return what the API says."""
        found: dict[str, Any] = {}

        def is_done() -> bool:
            found.update(self.call("GET", f"/repositories/{repository}/commits/{sha}"))
            return found["published"]["status"] != "pending"

        self.wait(is_done, seconds=30)
        return found

    def upload(
        self, path: str, content: str | bytes, *, branch: str = "master", name: str = "file.csv", **more: str
    ) -> requests.Response:
        """Upload a file into a dataset, which is made where it is not there."""
        found = self.call("GET", f"/datasets?path={path}")["results"]
        dataset = found[0] if found else self.call("POST", "/datasets", json={"path": path}, expect=201)
        query = {"branch": branch, **more}
        return self.request("POST", f"/datasets/{dataset['id']}/upload", params=query, files={"file": (name, content)})

    def build(self, *targets: str, branch: str = "master", seconds: float = 60, **more: Any) -> dict[str, Any]:
        """Build and wait for the end."""
        return self.wait_for_build(self.start_build(*targets, branch=branch, **more)["id"], seconds=seconds)

    def start_build(self, *targets: str, branch: str = "master", **more: Any) -> dict[str, Any]:
        """Start a build."""
        made: dict[str, Any] = self.call(
            "POST", "/builds", json={"branch": branch, "targets": list(targets), **more}, expect=202
        )
        return made

    def wait_for_build(self, build_id: int, *, seconds: float = 60) -> dict[str, Any]:
        """Wait for the end of a build."""
        found: dict[str, Any] = {}

        def is_over() -> bool:
            found.update(self.call("GET", f"/builds/{build_id}"))
            return found["state"] not in {"RESOLVING", "RUNNING"}

        self.wait(is_over, seconds=seconds)
        return found

    def wait_for_job(self, build_id: int, state: str, *, seconds: float = 30) -> dict[str, Any]:
        """Wait until a job of the build is in a state."""
        found: list[dict[str, Any]] = []

        def has_job() -> bool:
            found[:] = [job for job in self.call("GET", f"/builds/{build_id}")["jobs"] if job["state"] == state]
            return bool(found)

        self.wait(has_job, seconds=seconds)
        return found[0]

    def wait(self, is_true: Callable[[], bool], *, seconds: float) -> None:
        """Wait until something holds; a failure says which parts have ended, with the last lines of their logs."""
        try:
            # Asked twenty times a second, the answers would cost more than the build that is waited for.
            wait_until(is_true, seconds=seconds, every=0.05, most=0.25)
        except AssertionError as error:
            ended = [name for name, part in self.parts.items() if part.poll() is not None]
            logs = [f"{name} has ended:\n{(self.home / f'{name}.log').read_text()[-2000:]}" for name in ended]
            raise AssertionError("\n".join([str(error), *logs])) from error

    def open_transactions(self) -> list[str]:
        """Return the open transactions of the whole installation."""
        return self.query("SELECT id FROM datasets_transaction WHERE state = 'OPEN'")

    def query(self, sql: str) -> list[Any]:
        """Ask the database directly."""
        return ask_database(self.home, sql)

    def rows(self, path: str, *, branch: str = "master") -> list[dict[str, Any]]:
        """Return the rows of a dataset as a plain Iceberg client reads them."""
        found: list[dict[str, Any]] = self.load(path, branch=branch).scan().to_arrow().to_pylist()
        return found

    def load(self, path: str, *, branch: str = "master") -> Any:
        """Load the table of a dataset as a plain Iceberg client."""
        return self.connect(branch).load_table(path.strip("/").replace("/", "."))

    def connect(self, branch: str = "master") -> Any:
        """Return a plain Iceberg client."""
        from pyiceberg.catalog.rest import RestCatalog

        header = {} if branch == "master" else {"header.X-PLTR-Branch": branch}
        return RestCatalog("tests", uri=f"http://127.0.0.1:{self.port}/iceberg", token=self.token, **header)

    @property
    def lake(self) -> Path:
        """The folder beside the warehouse below which tables may lie, for those that have one."""
        return self.home.with_name("lake")

    def history(self, path: str) -> list[int]:
        """Return the snapshots from the head of master back to the first."""
        table = self.load(path)
        found, snapshot = [], table.current_snapshot()
        while snapshot is not None:
            found.append(snapshot.snapshot_id)
            snapshot = table.metadata.snapshot_by_id(snapshot.parent_snapshot_id or -1)
        return found

    def log(self, job_id: str) -> str:
        """Return the text of a job's log."""
        return "\n".join(line["text"] for line in self.call("GET", f"/jobs/{job_id}/log")["lines"])


def _list_children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


PREPARE = "from webapp.accounts.services import prepare_admin; prepare_admin()"


def wait_until(is_true: Callable[[], bool], *, seconds: float, every: float = 0.1, most: float = 0.3) -> None:
    """Wait until something holds; fail when it does not come. Pauses grow from `every` to `most`, where that is longer."""
    deadline = time.monotonic() + seconds
    pause = every
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain")
        time.sleep(pause)
        pause = max(every, min(pause * 1.2, most))


@contextlib.contextmanager
def running_stack(home: Path, *, spark: bool = False, **more: str) -> Iterator[Stack]:
    """Start an installation, and stop it."""
    stack = Stack(home=home, port=find_free_port(), more=more)
    try:
        if spark:
            stack.start_spark()
        stack.start()
        yield stack
    finally:
        # Nobody looks at it any more, and four Pythons that end in good order take seconds.
        for name in stack.parts.keys() & {"web", "quick", "builds", "sweep"}:
            with contextlib.suppress(ProcessLookupError):
                stack.kill(name)
        stack.stop()
