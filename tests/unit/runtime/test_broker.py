"""The broker in a file hands over every message once, oldest first, keeps one of a kind, and can be lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection

from webapp.runtime.broker import MessageFile

MESSAGES = 300
TRANSPORT = "webapp.runtime.broker:Transport"
PLACE = "import sys\nfrom pathlib import Path\nfrom webapp.runtime.broker import MessageFile\nmessages = MessageFile(Path(sys.argv[1]))\n"
WRITE = (
    PLACE
    + "for number in range(int(sys.argv[2])):\n    messages.put('quick', f'{sys.argv[3]}-{number}', str(number))\n"
)
TAKE = PLACE + "while (body := messages.take('quick')) is not None:\n    print(body)\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "broker" / "messages.sqlite3"


@pytest.fixture
def channel(path: Path) -> Iterator[Any]:
    with Connection(transport=TRANSPORT, transport_options={"path": str(path)}) as connection:
        yield connection.default_channel


def put(channel: Any, queue: str, number: int, *, key: str = "") -> None:
    properties = {"correlation_id": key or f"task:{number}"}
    channel._put(queue, {"number": number, "properties": properties})


def take_all(channel: Any, queue: str) -> list[Any]:
    taken = []
    while True:
        try:
            taken.append(channel._get(queue)["number"])
        except Empty:
            return taken


def test_messages_come_oldest_first_and_only_to_their_queue(channel: Any) -> None:
    for number in range(10):
        put(channel, "quick" if number % 2 else "builds", number)
    assert channel._size("quick") == channel._size("builds") == 5
    assert take_all(channel, "quick") == [1, 3, 5, 7, 9]
    assert channel._purge("builds") == 5
    assert take_all(channel, "builds") == []


def test_a_message_that_waits_is_not_added_again_and_one_that_was_taken_is(channel: Any) -> None:
    for _ in range(1000):
        put(channel, "quick", 1, key="the same")
    assert channel._size("quick") == 1
    assert take_all(channel, "quick") == [1]
    put(channel, "quick", 2, key="the same")
    assert take_all(channel, "quick") == [2]


def test_a_poll_costs_the_same_at_ten_and_at_a_hundred_thousand_messages(path: Path) -> None:
    """Counted in steps of SQLite's machine: what a busy test computer does not change."""
    steps = []
    for waiting in (10, 100_000):
        messages = MessageFile(path.with_name(f"{waiting}.sqlite3"))
        connection = messages._open()
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO message (queue, key, body) VALUES ('quick', ?, '')", ((str(n),) for n in range(waiting))
        )
        connection.execute("COMMIT")
        count = [0]
        connection.set_progress_handler(lambda count=count: count.__setitem__(0, count[0] + 1), 1)
        assert messages.take("quick") == ""
        messages.put("quick", "another", "")
        assert messages.take("builds") is None
        steps.append(count[0])
        messages.close()
    assert steps[1] <= steps[0] * 1.2


def test_takers_beside_writers_get_every_message_once(channel: Any, path: Path) -> None:
    for number in range(MESSAGES):
        put(channel, "quick", number)
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(path), str(MESSAGES), name]) for name in "ab"]
    messages = MessageFile(path)
    taken: list[str] = []
    while any(writer.poll() is None for writer in writers):
        body = messages.take("quick")
        if body is not None:
            taken.append(body)
    takers = [
        subprocess.Popen([sys.executable, "-c", TAKE, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    taken += [line for taker in takers for line in taker.communicate(timeout=60)[0].splitlines()]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(taken) == 3 * MESSAGES


@pytest.mark.parametrize("damage", ["removed", "overwritten", "emptied"])
def test_a_file_that_is_lost_or_damaged_is_made_anew_for_everybody(path: Path, damage: str) -> None:
    first, second = MessageFile(path), MessageFile(path)
    first.put("quick", "old", "old")
    assert second.count("quick") == 1
    if damage == "removed":
        path.unlink()
    elif damage == "overwritten":
        first.close()
        second.close()
        path.write_bytes(b"no database" * 1000)
    else:
        first.close()
        second.close()
        path.write_bytes(b"")
    first.put("quick", "new", "new")
    assert second.take("quick") == "new"
    assert second.take("quick") is None
    first.close()
    second.close()
