"""Whether each part of the installation works, for `readyz` and the home page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.db import DatabaseError, connection

from webapp.core import clock
from webapp.core.errors import Unavailable
from webapp.core.models import Heartbeat
from webapp.runtime import doorbell, object_store
from webapp.runtime.hosts import PORTS
from webapp.runtime.probes import answers_http2, answers_tcp, ask_fork_server
from webapp.runtime.room import Disk, describe_size, list_disks
from webapp.runtime.spark_folders import is_renewing, is_spark_shared
from webapp.runtime.web.gates import Gate

STALE_AFTER = timedelta(seconds=20)
LATE_S = 60.0
"""A message of the quick queue that waits for so long in seconds shows that nobody takes messages."""
WORKERS = ("worker-quick", "worker-builds", "sweep")
SHARED = (
    "SPARK_REMOTE does not keep repositories apart: a Spark transform can read every file that the cluster can read"
)
BROKER_PORTS = {"redis": 6379, "rediss": 6379, "amqp": 5672, "amqps": 5671, "pyamqp": 5672}
"""Where a broker listens whose address names no port."""


@dataclass(frozen=True)
class PartHealth:
    """One part, as people and programs see it."""

    name: str
    works: bool
    state: str
    """ok, shared, starting, off, low, stuck or down."""
    detail: str
    figures: Mapping[str, int | None] = field(default_factory=dict)
    """What is counted of it."""


def check_parts() -> list[PartHealth]:
    """Look at every part: database, broker, worker, spark, warehouse, disk, sandbox, and those that apps have added."""
    own = [_database(), _broker(), _worker(), check_spark(), _warehouse(), _disk(), _sandbox()]
    return [*own, *(check() for check in _registered)]


def register_part(check: Callable[[], PartHealth]) -> None:
    """Add a part that an app above looks after; call it from `AppConfig.ready`."""
    if check not in _registered:
        _registered.append(check)


_registered: list[Callable[[], PartHealth]] = []


def register_gate(gate: Gate) -> None:
    """Add the threads of a gate as a part of its name: what hangs in all of them is seen by nobody else."""

    def check() -> PartHealth:
        is_stuck = gate.is_stuck()
        detail = "every thread hangs in a call; restart web" if is_stuck else "its threads answer"
        return PartHealth(gate.name, works=not is_stuck, state="stuck" if is_stuck else "ok", detail=detail)

    register_part(check)


def _database() -> PartHealth:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return PartHealth("database", works=False, state="down", detail=str(error))
    return PartHealth("database", works=True, state="ok", detail=connection.vendor)


def _broker() -> PartHealth:
    if not settings.CELERY_BROKER_URL:
        try:
            waiting = sum(doorbell.count_messages(queue) for queue in doorbell.QUEUES)
        except OSError as error:
            return PartHealth("broker", works=False, state="down", detail=str(error))
        return PartHealth("broker", works=True, state="ok", detail=f"file, {waiting} waiting{_say_missed()}")
    url = urlsplit(settings.CELERY_BROKER_URL)
    port = url.port or BROKER_PORTS.get(url.scheme)
    if port is None:
        detail = f"CELERY_BROKER_URL names no port, and {url.scheme}:// has none that is known: add it"
        return PartHealth("broker", works=False, state="down", detail=detail)
    works = answers_tcp(url.hostname or "localhost", port)
    return PartHealth("broker", works=works, state="ok" if works else "down", detail=f"{url.scheme}{_say_missed()}")


def _say_missed() -> str:
    missed = doorbell.count_missed()
    return f", {missed} rings of this process not taken since its start" if missed else ""


def _worker() -> PartHealth:
    try:
        now = clock.shared_now()
        rows = dict(Heartbeat.objects.filter(part__in=WORKERS).values_list("part", "at"))
    except DatabaseError:
        return PartHealth("worker", works=False, state="down", detail="unknown: the database is away")
    missing = [name for name in WORKERS if name not in rows or now - rows[name] > STALE_AFTER]
    if missing:
        return PartHealth("worker", works=False, state="down", detail=f"no sign of {', '.join(missing)}")
    waits = _measure_waits()
    # Jobs wait for as long as others run; the part `backlog` tells whether they move.
    is_late = waits.get("quick", 0.0) > LATE_S
    oldest = "".join(f", the oldest message of {queue} waits for {wait:.0f} s" for queue, wait in waits.items())
    return PartHealth(
        "worker", works=not is_late, state="stuck" if is_late else "ok", detail=f"quick and builds{oldest}"
    )


def _measure_waits() -> dict[str, float]:
    """Return how long the oldest message of each queue that has one waits in seconds."""
    try:
        waits = {queue: doorbell.measure_wait(queue) for queue in doorbell.QUEUES}
    except OSError:
        return {}  # the broker's own part says that it is away
    return {queue: wait for queue, wait in waits.items() if wait is not None}


def check_spark() -> PartHealth:
    """Look whether Spark answers and has warmed up, or will have in a moment: to start anew for others is no fault."""
    health = look_at_spark()
    if health.state == "starting" and is_renewing():
        return PartHealth("spark", works=True, state="ok", detail="starts anew for other people's code")
    return health


def does_spark_listen() -> bool:
    """Return whether there is a Spark server at its address, warm or not.

    The installation's own one has to answer; one elsewhere can speak TLS, and is only connected to.
    """
    return takes_spark_connections() if is_spark_shared() else answers_http2(*_find_spark())


def takes_spark_connections() -> bool:
    """Return whether a Spark server holds its address, even one that has stopped answering."""
    return answers_tcp(*_find_spark())


def _find_spark() -> tuple[str, int]:
    address = urlsplit(settings.SPARK_REMOTE)
    return address.hostname or "localhost", address.port or PORTS["sc"]


def look_at_spark() -> PartHealth:
    """Look whether Spark answers and has warmed up by now."""
    if not settings.SPARK_REMOTE:
        return PartHealth("spark", works=False, state="off", detail="no Java 17 or 21, and SPARK_REMOTE is not set")
    if not does_spark_listen():
        return PartHealth("spark", works=False, state="starting", detail="engine starting")
    if is_spark_shared():
        return PartHealth("spark", works=True, state="shared", detail=SHARED)
    if not (Path(settings.TRIBUTARY_HOME) / "run" / "spark.ready").exists():
        return PartHealth("spark", works=False, state="starting", detail="engine warming up")
    return PartHealth("spark", works=True, state="ok", detail="warm")


def _warehouse() -> PartHealth:
    location = settings.TRIBUTARY_WAREHOUSE
    if object_store.is_object_location(location):
        return _bucket(location)
    for place in (location, *settings.TRIBUTARY_LOCATIONS):
        folder = Path(place.removeprefix("file://"))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            return PartHealth("warehouse", works=False, state="down", detail=f"{folder}: {error.strerror}")
    return PartHealth("warehouse", works=True, state="ok", detail="file")


def _disk() -> PartHealth:
    try:
        disks = list_disks()
    except OSError as error:
        return PartHealth("disk", works=False, state="down", detail=str(error))
    low = [f"{disk.describe()}: work that writes waits" for disk in disks if disk.is_low]
    held: dict[int, list[Disk]] = {}
    for disk in disks:
        held.setdefault(disk.device, []).append(disk)
    free = [f"{' and '.join(disk.holds for disk in same)} {describe_size(same[0].free)} free" for same in held.values()]
    detail = ". ".join(low) or ", ".join(free)
    return PartHealth("disk", works=not low, state="low" if low else "ok", detail=detail)


def _bucket(location: str) -> PartHealth:
    try:
        object_store.check(location)
    except (Unavailable, object_store.Absent) as error:
        detail = error.detail if isinstance(error, Unavailable) else f"there is no bucket for {location}"
        return PartHealth("warehouse", works=False, state="down", detail=detail)
    if not settings.TRIBUTARY_S3_ROLE and not settings.TRIBUTARY_S3_SHARE_KEYS:
        detail = "jobs get no keys: set TRIBUTARY_S3_ROLE"
        return PartHealth("warehouse", works=False, state="down", detail=detail)
    return PartHealth(
        "warehouse", works=True, state="ok", detail="s3" if settings.TRIBUTARY_S3_ROLE else "s3, shared keys"
    )


def _sandbox() -> PartHealth:
    status = ask_fork_server(Path(settings.TRIBUTARY_HOME) / "run" / "fork.sock")
    if status is None:
        return PartHealth("sandbox", works=False, state="starting", detail="the fork server does not answer")
    mode = str(status.get("sandbox", "off"))
    if not status.get("ready"):
        return PartHealth("sandbox", works=False, state="starting", detail="importing libraries")
    # "off" works, for people who trust their users; it must be seen, and README says what it means.
    detail = f"{mode}, memory of jobs: {status.get('memory', 'watched')}"
    return PartHealth("sandbox", works=True, state="off" if mode == "off" else "ok", detail=detail)
