"""The folder broker hands over every message once, whole, oldest first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection

MESSAGES = 500
WRITE = """
import sys
from kombu import Connection
with Connection(transport="webapp.core.broker:Transport", transport_options={"folder": sys.argv[1]}) as connection:
    for number in range(int(sys.argv[2])):
        connection.default_channel._put("quick", {"body": "x" * 500, "number": number})
"""
TAKE = """
import sys
from queue import Empty
from kombu import Connection
with Connection(transport="webapp.core.broker:Transport", transport_options={"folder": sys.argv[1]}) as connection:
    try:
        while True:
            print(connection.default_channel._get("quick")["number"])
    except Empty:
        pass
"""


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Any]:
    transport = "webapp.core.broker:Transport"
    with Connection(transport=transport, transport_options={"folder": str(tmp_path)}) as connection:
        yield connection.default_channel


def take_all(channel: Any, queue: str) -> list[Any]:
    taken = []
    while True:
        try:
            taken.append(channel._get(queue)["number"])
        except Empty:
            return taken


def test_messages_come_oldest_first_and_only_to_their_queue(channel: Any, tmp_path: Path) -> None:
    for number in range(10):
        channel._put("quick" if number % 2 else "builds", {"number": number})
    assert channel._size("quick") == channel._size("builds") == 5
    assert take_all(channel, "quick") == [1, 3, 5, 7, 9]
    assert channel._purge("builds") == 5
    assert take_all(channel, "builds") == []
    assert list(tmp_path.iterdir()) == []


def test_takers_beside_a_writer_get_every_message_once_and_whole(channel: Any, tmp_path: Path) -> None:
    """A taker that looks without a pause meets messages as they are written; kombu's own transport fails here."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path), str(MESSAGES)]) for _ in range(2)]
    taken: list[int] = []
    while any(writer.poll() is None for writer in writers):
        taken += take_all(channel, "quick")
    taken += take_all(channel, "quick")
    assert [writer.returncode for writer in writers] == [0, 0]
    assert sorted(taken) == sorted(2 * list(range(MESSAGES)))


def test_two_takers_never_get_the_same_message(channel: Any, tmp_path: Path) -> None:
    for number in range(MESSAGES):
        channel._put("quick", {"number": number})
    takers = [
        subprocess.Popen([sys.executable, "-c", TAKE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    printed = [taker.communicate(timeout=60)[0].split() for taker in takers]
    assert sorted(int(number) for numbers in printed for number in numbers) == list(range(MESSAGES))
