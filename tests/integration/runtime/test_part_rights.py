"""What the parts of an installation have of rights and of secrets: as little as they can work with.

Jobs and Spark find the catalog behind a proxy, and reach nothing else, the web part's own port included.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.factories.builds import HEAD, PASSWORD, ROOT, make_transform
from tests.factories.gate import Gate
from tests.factories.supervised import SupervisedStack, supervised_stack
from tests.factories.tiers import further
from webapp.runtime.privileges import NOTHING, keep_only

pytestmark = [pytest.mark.integration, pytest.mark.timeout(500)]
CANARIES = {
    "TRIBUTARY_SECRET_KEY": "canary-key-8f31-of-at-least-fifty-characters-0123456789",
    "TRIBUTARY_S3_ACCESS_KEY_ID": "canary-id-8f31",
    "TRIBUTARY_S3_SECRET_ACCESS_KEY": "canary-secret-8f31",
}
FOLLOW = """from transforms.api import incremental, transform
from transforms.tables import TableInput, TableOutput


@incremental()
@transform.spark.using(source=TableInput("/shop/t"), output=TableOutput("/shop/followed"))
def follow(ctx, source, output):
    output.apply_changelog(source.changelog(["id"]), ["id"])
"""
SPY = """
import ctypes, sys
libc = ctypes.CDLL(None)
for number in sys.argv[1:]:
    for name in ("environ", "mem", "auxv", "fd/0"):
        try:
            open(f"/proc/{number}/{name}", "rb").close()
        except OSError:
            continue
        print("SEEN", number, name)
    if libc.ptrace(16, int(number), 0, 0) == 0:
        print("SEEN", number, "traced")
print("DONE")
"""
"""Tries to look into processes."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into the parts")
CHOWN, DAC_OVERRIDE, FOWNER = 1 << 0, 1 << 1, 1 << 3


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with Gate().open() as found:
        yield found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, gate: Gate) -> Iterator[SupervisedStack]:
    more = {
        **CANARIES,
        "SPARK_REMOTE": "",
        "TRIBUTARY_EXECUTOR": "spark",
        "TRIBUTARY_CATALOG_URI": f"http://localhost:{gate.port}/iceberg",
    }
    with supervised_stack(tmp_path_factory.mktemp("rights") / "home", **more) as stack:
        gate.target = stack.port
        stack.wait(lambda: stack.status()["spark"]["state"] == "ready", seconds=120)
        yield stack
        supervisor = stack.parts["supervisor"]
        supervisor.terminate()
        supervisor.wait(30)
        assert list((stack.home / "run" / "secrets").iterdir()) == []


def list_processes(stack: SupervisedStack) -> list[Path]:
    supervisor = stack.parts["supervisor"].pid
    return [Path("/proc", str(process.pid)) for process in stack.processes()] + [Path("/proc", str(supervisor))]


@needs_root
def test_no_environment_of_a_part_holds_a_secret(running: SupervisedStack) -> None:
    environments = {path: (path / "environ").read_bytes() for path in list_processes(running)}
    assert len(environments) > 5
    assert any("SparkConnectServer" in (path / "cmdline").read_text() for path in environments)
    [remote] = (running.home / "run" / "secrets").glob("*/SPARK_REMOTE")
    secrets = [*CANARIES.values(), PASSWORD, remote.read_text().partition("token=")[2]]
    shown = {
        (path.joinpath("comm").read_text().strip(), secret)
        for path, environment in environments.items()
        for secret in secrets
        if secret.encode() in environment
    }
    assert shown == set()


@needs_root  # to know who is confined
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_job_looks_into_no_process_that_holds_secrets(running: SupervisedStack, mode: str) -> None:
    command = [sys.executable, "-m", "jobs.entrypoints.sandbox", "--mode", mode, "--cwd", "/", "--"]
    numbers = [path.name for path in list_processes(running) if not _is_confined(path)]
    spied = subprocess.run(
        [*command, sys.executable, "-c", SPY, *numbers],
        cwd=ROOT,
        # Without a sandbox the user is that of the parts; an ordinary one has no rights of root.
        preexec_fn=None if mode == "auto" else lambda: keep_only(NOTHING),  # noqa: PLW1509
        capture_output=True,
        text=True,
        check=False,
    )
    assert spied.stdout.splitlines() == ["DONE"], spied.stderr


def _is_confined(process: Path) -> bool:
    """Whether it is in a sandbox; one that has ended meanwhile is nobody's to look into, either."""
    try:
        namespace = (process / "ns" / "mnt").readlink()
    except FileNotFoundError:
        return True
    return namespace != Path("/proc/self/ns/mnt").readlink()


@needs_root
def test_nothing_listens_but_web_and_spark_and_both_on_loopback(running: SupervisedStack) -> None:
    sockets = {link for process in list_processes(running) if _shares_network(process) for link in _list_links(process)}
    here = Path("/proc/self/net")
    listening = set()
    for kind, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        for line in here.joinpath(kind).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == state and f"socket:[{fields[9]}]" in sockets:
                listening.add((kind, *fields[1].split(":")))
    [remote] = (running.home / "run" / "secrets").glob("*/SPARK_REMOTE")
    spark = urlsplit(remote.read_text()).port
    loopback = f"{int.from_bytes(bytes([127, 0, 0, 1]), sys.byteorder):08X}"
    assert spark is not None
    assert listening == {("tcp", loopback, f"{port:04X}") for port in (running.port, spark)}


def _shares_network(process: Path) -> bool:
    return (process / "ns" / "net").readlink() == Path("/proc/self/ns/net").readlink()


def _list_links(process: Path) -> list[str]:
    return [str(link.readlink()) for link in (process / "fd").iterdir() if link.is_symlink()]


def test_the_files_of_secrets_are_their_owners_alone(running: SupervisedStack) -> None:
    [folder] = (running.home / "run" / "secrets").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert {path.name for path in folder.iterdir()} >= CANARIES.keys()


def test_parts_have_no_rights_of_root_but_those_of_files(running: SupervisedStack) -> None:
    files = CHOWN | DAC_OVERRIDE | FOWNER if os.geteuid() == 0 else 0
    for part, kept in (("web", 0), ("worker-quick", files), ("worker-builds", files), ("sweep", files)):
        status = Path("/proc", str(running.process_of(part).pid), "status").read_text()
        fields = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
        assert [int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, kept, kept, 0], part
        assert fields["NoNewPrivs"] == "1", part


@further("spark/builds/test_spark_builds.py::test_spark_transform_builds_within_seconds_on_a_warm_server")
def test_an_installation_works_with_them(running: SupervisedStack, gate: Gate) -> None:
    running.make_repository()
    assert running.upload("/shop/raw", "id,amount\n1,10\n2,20\n").status_code == 201
    source = HEAD + make_transform("t", inputs=["/shop/raw"], output="/shop/t", body="out.write_table(i0.arrow())")
    running.commit({"pipelines/t.py": source, "pipelines/follow.py": FOLLOW})
    build = running.build("/shop/followed", upstream=True, seconds=300)
    logs = [running.log(job["id"]) for job in build["jobs"]]
    assert build["state"] == "COMPLETED", logs
    assert "applied 2 changes to /shop/followed on the staging branch by Spark" in logs[-1]
    assert gate.callers == {"PyIceberg", "Apache-HttpClient"}
    for name in ("t", "followed"):
        [dataset] = running.call("GET", f"/datasets?path=/shop/{name}")["results"]
        assert len(running.call("GET", f"/datasets/{dataset['id']}/preview")["rows"]) == 2
    running.call("DELETE", "/repositories/shop", expect=204)


@further("unit/runtime/test_spark_server.py::test_a_server_that_starts_anew_for_others_is_no_fault_of_the_installation")
def test_spark_starts_anew_for_other_people_and_that_is_no_fault(running: SupervisedStack) -> None:
    # it may be the job's that another test has run
    running.wait(lambda: "opened" in _ask_for_spark(running, "these"), seconds=60)
    running.wait(lambda: running.status()["spark"]["state"] == "ready", seconds=180)
    before = running.status()["spark"]
    running.wait(lambda: "busy" in _ask_for_spark(running, "those"), seconds=30)
    running.wait(lambda: running.status()["spark"]["pid"] not in (None, before["pid"]), seconds=60)
    assert running.works("spark")
    assert running.status()["spark"]["restarts"] == before["restarts"]
    running.wait(lambda: "opened" in _ask_for_spark(running, "those"), seconds=60)
    running.wait(lambda: running.status()["spark"]["state"] == "ready", seconds=180)


def _ask_for_spark(stack: SupervisedStack, group: str) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        try:
            connection.connect(str(stack.home / "spark.sock"))
        except OSError:
            return "away"
        connection.sendall(json.dumps({"group": group, "show": [], "open": []}).encode() + b"\n")
        return connection.makefile().readline()
