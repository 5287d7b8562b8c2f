"""Brokers of installations under test: the embedded one from outside, and a real Redis."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from celery import current_app

from tests.factories.builds import wait_until
from webapp.runtime import doorbell
from webapp.runtime.broker import MessageFile
from webapp.runtime.doorbell import QUEUES
from webapp.runtime.probes import answers_tcp, find_free_port


def empty_broker(home: Path) -> int:
    """Lose every message; return how many there were."""
    messages = MessageFile(home / "broker" / "messages.sqlite3")
    try:
        return sum(messages.purge(queue) for queue in QUEUES)
    finally:
        messages.close()


@dataclass
class Redis:
    """A Redis of a test's own, without files: what is in it is lost with it."""

    folder: Path
    port: int = field(default_factory=find_free_port)
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def url(self) -> str:
        """For CELERY_BROKER_URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, empty."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            ["redis-server", *options, "--dir", str(self.folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: answers_tcp("127.0.0.1", self.port), seconds=20, every=0.05)

    def stop(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def running_redis(folder: Path) -> Iterator[Redis]:
    """Start a Redis, and stop it."""
    redis = Redis(folder)
    redis.start()
    try:
        yield redis
    finally:
        redis.stop()


@contextlib.contextmanager
def ringing(url: str, options: dict[str, Any] | None = None, transport: str = "") -> Iterator[Any]:
    """A bell of this test alone, for a broker at an address."""
    conf = current_app.conf
    names = ("broker_url", "broker_read_url", "broker_write_url", "broker_transport", "broker_transport_options")
    kept = {name: conf.get(name) for name in names}
    conf.update(broker_url=url, broker_read_url=url, broker_write_url=url, broker_transport=transport)
    conf.update(broker_transport_options=options or {})
    bell, doorbell._bell = doorbell._bell, doorbell._Bell()
    try:
        yield doorbell._bell
    finally:
        doorbell._bell._disconnect()
        doorbell._bell = bell
        conf.update(kept)
