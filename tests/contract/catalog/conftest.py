"""A real server in a process of its own, with its own home, for clients that know nothing of Django."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest

from tests.factories.databases import prepare
from tests.factories.postgres import database_of
from tests.factories.spark import QUICK, new_session, rest_catalog

ROOT = Path(__file__).parents[3]
CATALOGS = {"main_": None, "a": "feature/a", "b": "b", "planned": None, "planned_a": "feature/a"}
Rows = list[tuple[Any, ...]]
Sql = Callable[[str], Rows]
SETUP = """
import json, sys, django
django.setup()
from webapp.accounts.models import User
from webapp.accounts.services import create_token, claim_folder, grant_role
admin = User.objects.create(username="admin", is_superuser=True)
json.dump({"admin": create_token(user=admin, name="tests")[1]}, sys.stdout)
"""


@dataclass
class Server:
    """A running installation."""

    port: int
    home: Path
    token: str
    process: subprocess.Popen[bytes]
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """The catalog's base."""
        return f"http://127.0.0.1:{self.port}/iceberg"

    def pyiceberg(self, branch: str | None = None, **extra: str) -> Any:
        """A PyIceberg catalog, with a branch header or without."""
        from pyiceberg.catalog import load_catalog

        header = {} if branch is None else {"header.X-PLTR-Branch": branch}
        return load_catalog("t", **{"type": "rest", "uri": self.uri, "token": self.token, **header, **extra})


def environment_of(home: Path, port: int, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a server's processes get."""
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("TRIBUTARY_", "DATABASE_URL"))},
        "TRIBUTARY_HOME": str(home),
        "TRIBUTARY_PORT": str(port),
        "TRIBUTARY_DEMO": "0",
        "DJANGO_SETTINGS_MODULE": "webapp.config.settings",
        **database_of(home),
        **(more or {}),
    }


def serve(home: Path, port: int, more: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start the web server of an installation that is set up."""
    command = [sys.executable, "-m", "webapp.config.web", "--port", str(port)]
    with (home / "server.log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, env=environment_of(home, port, more), stdout=log, stderr=log)


def start_server(home: Path, **more: str) -> Server:
    """Start an installation and wait until it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = environment_of(home, port, more)
    token = json.loads(prepare(home, environment, [sys.executable, "-c", SETUP]))["admin"]
    process = serve(home, port, more)
    server = Server(port=port, home=home, token=token, process=process, more=more)
    wait_until_up(server)
    return server


def wait_until_up(server: Server) -> None:
    """Wait until a server answers."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urlopen(f"http://127.0.0.1:{server.port}/iceberg/v1/config", timeout=2)
        except OSError as error:  # HTTPError is one, and a connection that is cut off
            if getattr(error, "code", None) == 401:
                return
            time.sleep(0.2)
    message = (server.home / "server.log").read_text()
    raise AssertionError(message)


@pytest.fixture(scope="package")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder beside the warehouse below which clients may say where tables lie."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, fork_server: Any, lake: Path) -> Iterator[Server]:
    """One server for all contract tests of the catalog."""
    home = tmp_path_factory.mktemp("server")
    fork_server.serve(home)
    running = start_server(home, TRIBUTARY_LOCATIONS=f"file:{lake}")
    yield running
    running.process.terminate()
    running.process.wait(20)


@pytest.fixture
def namespace(server: Server) -> str:
    """A namespace of this test alone."""
    name = f"n{uuid4().hex[:8]}"
    server.pyiceberg().create_namespace(name)
    return name


@pytest.fixture
def on(server: Server) -> Callable[..., Any]:
    """PyIceberg on a branch; without an argument a client that sends no header."""
    return server.pyiceberg


def catalogs(server: Server) -> dict[str, str]:
    """The configuration of the catalogs: no header, two branches, and two of them with scans planned by the server."""
    found = {}
    for name, branch in CATALOGS.items():
        found |= rest_catalog(name, server.uri, server.token, branch)
        found[f"spark.sql.catalog.{name}.cache-enabled"] = "false"
        if name.startswith("planned"):
            found[f"spark.sql.catalog.{name}.scan-planning-mode"] = "server"
    return found


@pytest.fixture(scope="package")
def session(server: Server) -> Any:
    """A local Spark with the server's catalogs."""
    return new_session({**QUICK, **catalogs(server)})


@pytest.fixture
def sql(session: Any) -> Sql:
    """Run one statement; rows as tuples, sorted where the statement does not say."""

    def run(statement: str) -> Rows:
        rows = [tuple(row) for row in session.sql(statement).collect()]
        return rows if "order by" in statement or statement.startswith("show columns") else sorted(rows, key=str)

    return run


@pytest.fixture
def refused(sql: Sql) -> Callable[..., None]:
    """A statement that must fail, with words that help."""

    def run(statement: str, *words: str) -> None:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - Py4J and Spark have many
            sql(statement)
        text = str(caught.value)
        assert all(word in text for word in words), text

    return run
