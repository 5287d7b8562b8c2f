"""What goes wrong: each fault is made, lasts a while, and is mended as an operator or the world would mend it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.factories.broker import empty_broker
from tests.factories.builds import ROOT
from tests.factories.disks import filled
from tests.factories.installation import Installation

CLOCK = "clock-shift"
DAMAGED = "damaged"
"""A table that is there to be damaged."""
JUMPS = (120, -120, 86_400, -86_400)
KILLED = ("web", "worker-quick", "worker-builds", "sweep", "fork-server")


@dataclass(frozen=True)
class Fault:
    """A name for the log, and what makes it and takes it away again."""

    name: str
    happen: Callable[[], None]


def list_faults(installation: Installation, dice: random.Random, *, seconds: float) -> list[Fault]:
    """Return one fault of each kind; those that last do so for some seconds."""
    kills = [Fault(f"kill -9 in {part}", lambda part=part: kill_in(installation, part, dice)) for part in KILLED]
    return [
        *kills,
        Fault("kill -9 of a job", lambda: kill_a_job(installation, dice)),
        Fault("a full disk", lambda: fill_disk(installation.home, seconds)),
        Fault("a warehouse that is read-only", lambda: hold_read_only(installation.home / "warehouse", seconds)),
        Fault("a database that does not answer", lambda: hold_database(installation.home, seconds)),
        Fault("a broker without its messages", lambda: empty_broker(installation.home)),
        Fault("a damaged table", lambda: damage_table(installation, seconds)),
        *(
            Fault(f"a clock that jumps by {shift} s", lambda shift=shift: move_clock(installation.home, shift, seconds))
            for shift in JUMPS
        ),
    ]


def read_parts(home: Path) -> dict[str, dict[str, object]]:
    """Return what the supervisor says of its parts."""
    parts: dict[str, dict[str, object]] = json.loads((home / "run" / "parts.json").read_text())
    return parts


def list_tree(pid: int) -> list[int]:
    """Return a process and all below it."""
    tree = [pid]
    for process in tree:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{process}/task").iterdir():
                tree += [int(child) for child in (task / "children").read_text().split()]
    return tree


def kill_in(installation: Installation, part: str, dice: random.Random) -> None:
    """kill -9 of one process of a part: the one that was started, or one that it started."""
    pid = read_parts(installation.home)[part]["pid"]
    if isinstance(pid, int):
        _kill(dice.choice(list_tree(pid) if part == "web" else [pid]))


def kill_a_job(installation: Installation, dice: random.Random) -> None:
    """kill -9 of a process below the fork server, where there is one."""
    pid = read_parts(installation.home)["fork-server"]["pid"]
    below = list_tree(pid)[1:] if isinstance(pid, int) else []
    if below:
        _kill(dice.choice(below))


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def fill_disk(home: Path, seconds: float) -> None:
    """Leave no room for a while."""
    with filled(home):
        time.sleep(seconds)


def hold_read_only(folder: Path, seconds: float) -> None:
    """Let nobody write for a while, as a file system does that met an error."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        time.sleep(seconds)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def hold_database(home: Path, seconds: float) -> None:
    """Keep the write lock of the database for a while."""
    with contextlib.closing(sqlite3.connect(home / "db.sqlite3", timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")


def damage_table(installation: Installation, seconds: float) -> None:
    """Cut the current metadata file of a table that nobody writes; it answers, or says that it is damaged."""
    token = installation.make_token()
    table = f"{installation.catalog}/v1/namespaces/plain/tables/{DAMAGED}"
    answer = requests.get(table, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    path = Path(answer.json()["metadata-location"].removeprefix("file://"))
    whole, mode = path.read_bytes(), path.stat().st_mode
    path.chmod(0o600)
    path.write_bytes(whole[: len(whole) // 2])
    try:
        time.sleep(seconds)
        answer = requests.get(table, headers={"Authorization": f"Bearer {token}"}, timeout=30)
        assert answer.status_code in {200, 503}, answer.text
    finally:
        path.write_bytes(whole)
        path.chmod(mode)


def build_clock(folder: Path) -> dict[str, str]:
    """Compile the clock that tests move; the environment of whoever is to go by it."""
    library = folder / "clock.so"
    source = ROOT / "tests" / "fakes" / "clock" / "clock.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source)], check=True)
    return {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(folder / CLOCK)}


def move_clock(home: Path, shift: int, seconds: float) -> None:
    """Set the clock of web and workers forward or back for a while."""
    (home.parent / CLOCK).write_text(str(shift))
    try:
        time.sleep(seconds)
    finally:
        (home.parent / CLOCK).write_text("0")
