"""What goes wrong: each fault is made, lasts a while, and is mended as an operator or the world would mend it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import requests

from tests.factories.broker import empty_broker
from tests.factories.builds import ROOT, wait_until
from tests.factories.disks import filled
from tests.factories.postgres import Postgres, ask_database
from tests.factories.supervised import Process, SupervisedStack, find_process, list_descendants
from tests.faults.client import Client
from tests.faults.leftovers import collect_beside_writers

CLOCK = "clock-shift"
DAMAGED = "damaged"
"""A table, and a branch, that are there to be damaged."""
SPARE, TEXT = "spare.md", "Only this branch has it.\n" * 20
TABLE = f"/iceberg/v1/namespaces/plain/tables/{DAMAGED}"
PREVIEW = "/api/v1/datasets/{dataset}/preview"
CONTENT = f"/api/v1/repositories/shop/contents/{SPARE}?ref={DAMAGED}"
COMPARISON = "/datasets/{dataset}/compare?{ends}"
JUMPS = (120, -120, 86_400, -86_400, 31_536_000, -31_536_000)
KILLED = ("web", "worker-quick", "worker-builds", "sweep", "fork-server", "spark")
REPLACED_S = 20
"""Maximum time in seconds until a part that hangs is ended."""
OF_MANY = frozenset({"web", "spark"})
"""Parts that are several processes, of which each may die."""


@dataclass(frozen=True)
class Fault:
    """A name for the log, and what makes it and takes it away again."""

    name: str
    happen: Callable[[], None]


def list_faults(
    stack: SupervisedStack,
    dice: random.Random,
    *,
    seconds: float,
    server: Postgres | None = None,
    with_supervisor: bool = False,
    damages: int = 1,
) -> list[Fault]:
    """Return one fault of each kind, and so many of damaged files; those that last do so for some seconds.

    `server` is None on SQLite.
    """
    there = [part for part in KILLED if part in stack.status()]
    kills = [Fault(f"kill -9 in {part}", lambda part=part: kill_in(stack, part, dice)) for part in there]
    kills += [Fault(f"SIGSTOP in {part}", lambda part=part: stop_in(stack, part, dice)) for part in there]
    if with_supervisor:
        kills.append(Fault("kill -9 of the supervisor", lambda: kill_supervisor(stack)))
    return [
        *kills,
        Fault("kill -9 of a job", lambda: kill_a_job(stack, dice)),
        Fault("the collector", lambda: collect_beside_writers(stack, dice, f"plain.{DAMAGED}")),
        Fault("a full disk", lambda: fill_disk(stack.home, seconds)),
        Fault("a warehouse that is read-only", lambda: hold_read_only(stack.home / "warehouse", seconds)),
        *list_database_faults(stack.home, server, seconds),
        Fault("a broker without its messages", lambda: empty_broker(stack.home)),
        *(
            Fault(f"damaged: {damage.what}", lambda damage=damage: cut_file(stack, damage, seconds))
            for damage in dice.sample(DAMAGES, damages)
        ),
        *(
            Fault(f"a clock that jumps by {shift} s", lambda shift=shift: move_clock(stack.home, shift, seconds))
            for shift in JUMPS
        ),
    ]


def list_database_faults(home: Path, server: Postgres | None, seconds: float) -> list[Fault]:
    """Return what goes wrong with a database: a file is locked, a server hangs or is killed."""
    silence = "a database that does not answer"
    if server is None:
        return [Fault(silence, lambda: hold_database(home, seconds))]
    return [
        Fault(silence, lambda: suspend_database(server, seconds)),
        Fault("a database that is stopped", lambda: stop_database(server, seconds)),
    ]


def kill_in(stack: SupervisedStack, part: str, dice: random.Random) -> None:
    """kill -9 of one process of a part: the one that was started, or one that it started."""
    pid = stack.status()[part]["pid"]
    process = find_process(pid) if pid else None
    if process is not None:
        dice.choice([process, *(list_descendants(pid) if part in OF_MANY else [])]).kill()


def stop_in(stack: SupervisedStack, part: str, dice: random.Random) -> None:
    """SIGSTOP of one process of a part, which the supervisor has to replace."""
    pid = stack.status()[part]["pid"]
    process = find_process(pid) if pid else None
    if process is not None:
        # What has a group of its own, such as a program of Git, has a deadline of its own, too.
        below = [each for each in list_descendants(pid) if part in OF_MANY and _find_group(each.pid) == pid]
        stop(dice.choice([process, *below]))


def _find_group(pid: int) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        return os.getpgid(pid)
    return None


def stop(process: Process) -> None:
    """SIGSTOP of a process; it is ended in time."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: not process.lives, seconds=REPLACED_S)


def kill_supervisor(stack: SupervisedStack) -> None:
    """kill -9 of the supervisor, which ends the group; whoever started it, as systemd would, starts it again."""
    processes = stack.processes()
    supervisor = stack.parts["supervisor"]
    supervisor.kill()
    supervisor.wait()
    wait_until(lambda: not any(process.lives for process in processes), seconds=30)
    stack.run()


def kill_a_job(stack: SupervisedStack, dice: random.Random) -> None:
    """kill -9 of a process below the fork server, where there is one."""
    pid = stack.status()["fork-server"]["pid"]
    below = list_descendants(pid) if pid else []
    if below:
        dice.choice(below).kill()


def fill_disk(home: Path, seconds: float) -> None:
    """Leave no room for a while."""
    with filled(home):
        time.sleep(seconds)


def hold_read_only(folder: Path, seconds: float) -> None:
    """Let nobody write for a while, as a file system does that met an error.

    The mount is made read-only where nobody opens anything: one with a file that is open for writing is busy."""
    aside = folder.with_name(f"{folder.name}-aside")
    aside.mkdir()
    subprocess.run(["mount", "--bind", str(folder), str(aside)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(aside)], check=True)
        subprocess.run(["mount", "--bind", str(aside), str(folder)], check=True)
        try:
            time.sleep(seconds)
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        subprocess.run(["umount", "--lazy", str(aside)], check=True)
        aside.rmdir()


def hold_database(home: Path, seconds: float) -> None:
    """Keep the write lock of the database for a while."""
    with contextlib.closing(sqlite3.connect(home / "db.sqlite3", timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")


def suspend_database(server: Postgres, seconds: float) -> None:
    """Let no process of the server go on for a while: connections stay open and say nothing."""
    assert server.process is not None
    pids = [server.process.pid, *(process.pid for process in list_descendants(server.process.pid))]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def stop_database(server: Postgres, seconds: float) -> None:
    """Stop the server at once, as its death does; it comes back with a recovery."""
    server.stop(signal.SIGQUIT)
    try:
        time.sleep(seconds)
    finally:
        server.start()


@dataclass(frozen=True)
class Damage:
    """A file of what nobody else uses, cut in the middle for a while."""

    what: str
    find: Callable[[SupervisedStack], Path]
    address: str
    """Of what needs the file; `{dataset}` is the number of the damaged table's dataset, `{ends}` its first two transactions."""
    check: str
    code: str
    """How that check of fsck calls it."""


def prepare_damage(stack: SupervisedStack) -> None:
    """Make what is there to be damaged: a table of two transactions with their comparison, and a branch."""
    client = Client(stack.url, stack.token)
    answer = client.post("/repositories/shop/branches", json={"name": DAMAGED, "start_point": "master"})
    assert answer.status_code == 201, answer.text
    stack.commit({SPARE: TEXT}, branch=DAMAGED)
    addresses = find_addresses(client)
    wait_until(lambda: client.get(COMPARISON.format(**addresses))["state"] == "ready", seconds=60)


def cut_file(stack: SupervisedStack, damage: Damage, seconds: float) -> None:
    """Cut a file; what needs it answers, or says that it cannot, and fsck names it until it is whole again."""
    url = f"http://127.0.0.1:{stack.port}{damage.address.format(**find_addresses(Client(stack.url, stack.token)))}"
    path = damage.find(stack)
    whole, mode = path.read_bytes(), path.stat().st_mode
    path.chmod(0o600)
    path.write_bytes(whole[: len(whole) // 2])
    try:
        time.sleep(seconds)
        answer = requests.get(url, headers={"Authorization": f"Bearer {stack.token}"}, timeout=30)
        assert answer.status_code in {200, 503} or 400 <= answer.status_code < 500, f"{damage.what}: {answer.text}"
        # Another fault may still keep it from looking.
        wait_until(lambda: f"{damage.code}: " in look(stack, damage.check), seconds=60)
    finally:
        path.write_bytes(whole)
        path.chmod(mode)


def look(stack: SupervisedStack, check: str) -> str:
    """Return what one check of fsck says."""
    command = [sys.executable, "manage.py", "fsck", check, "--settle", "0"]
    return subprocess.run(command, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=False).stdout


def find_addresses(client: Client) -> dict[str, str]:
    """Return what the addresses of damaged things are made of."""
    [dataset] = client.get(f"/datasets?path=/plain/{DAMAGED}")["results"]
    newest = client.get(f"/datasets/{dataset['id']}/transactions")["results"]
    after, before = [entry["id"] for entry in newest if entry["snapshot_id"]][:2]
    return {"dataset": str(dataset["id"]), "ends": f"from={before}&to={after}&keys=id"}


def find_metadata(stack: SupervisedStack) -> Path:
    """Return the current metadata file of the damaged table."""
    seen = Client(f"http://127.0.0.1:{stack.port}{TABLE}", stack.token).get("")
    return Path(seen["metadata-location"].removeprefix("file://"))


def find_of_table(stack: SupervisedStack, pattern: str) -> Path:
    """Return one of the damaged table's files."""
    return min(find_metadata(stack).parents[1].rglob(pattern))


def find_object(stack: SupervisedStack) -> Path:
    """Return the loose object of a text that only the spare branch has."""
    name = hashlib.sha1(b"blob %d\0%b" % (len(TEXT), TEXT.encode()), usedforsecurity=False).hexdigest()
    return stack.home / "repositories" / "shop.git" / "objects" / name[:2] / name[2:]


def find_summary(stack: SupervisedStack) -> Path:
    """Return the counts of the comparison that is there to be damaged."""
    question = (
        "SELECT identity FROM pulls_comparison JOIN datasets_dataset ON datasets_dataset.id = dataset_id "
        f"WHERE path = '/plain/{DAMAGED}' AND pulls_comparison.state = 'ready'"
    )
    [identity] = ask_database(stack.home, question)
    return stack.home / "diffs" / identity[:2] / identity / "summary.json"


DAMAGES = (
    Damage("metadata", find_metadata, TABLE, "tables", "metadata_damaged"),
    Damage("a manifest", partial(find_of_table, pattern="*-m0.avro"), PREVIEW, "tables", "manifest_damaged"),
    Damage("a data file", partial(find_of_table, pattern="*.parquet"), PREVIEW, "tables", "file_damaged"),
    Damage("a Git object", find_object, CONTENT, "repositories", "repository_damaged"),
    Damage("a stored diff", find_summary, f"/api/v1{COMPARISON}", "diffs", "diff_damaged"),
)


def build_clock(folder: Path) -> dict[str, str]:
    """Compile the clock that tests move; the environment of the installation, which goes by it."""
    library = folder / "clock.so"
    source = ROOT / "tests" / "fakes" / "clock" / "clock.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source)], check=True)
    return {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(folder / CLOCK)}


def client_clock(stack: SupervisedStack) -> dict[str, str]:
    """The environment of a client by a clock of its own, which goes wrong in the file that it names."""
    return {**stack.more, "CLOCK_SHIFT": str(stack.home.parent / f"{CLOCK}-of-clients")}


def move_clock(home: Path, shift: int, seconds: float) -> None:
    """Set the clock of web and workers forward or back for a while."""
    (home.parent / CLOCK).write_text(str(shift))
    try:
        time.sleep(seconds)
    finally:
        (home.parent / CLOCK).write_text("0")
