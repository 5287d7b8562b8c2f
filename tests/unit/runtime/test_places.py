"""Which connections are closed where they are too many: real ones of this machine, and never one with a request."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from webapp.runtime.web import places
from webapp.runtime.web.places import Places


class Door:
    """A listener and the two ends of each connection to it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = int(self._listener.getsockname()[1])

    def connect(self, number: int, *, source: str = "127.0.0.1") -> list[socket.socket]:
        """The far ends of new connections."""
        ends = []
        for _ in range(number):
            ends.append(socket.create_connection(("127.0.0.1", self.port), source_address=(source, 0)))
            self._stack.enter_context(ends[-1])
            self._stack.enter_context(self._listener.accept()[0])
        return ends


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    monkeypatch.setattr(places, "YOUNG_MS", 0)
    with ExitStack() as stack:
        yield Door(stack)


def list_closed(ends: list[socket.socket]) -> list[int]:
    """The places of those that were closed from the other side."""
    closed = []
    for place, end in enumerate(ends):
        end.setblocking(False)
        try:
            assert end.recv(1) == b""
            closed.append(place)
        except BlockingIOError:
            continue
    return closed


def test_idle_connections_beyond_an_addresses_share_are_closed_the_longest_idle_first(door: Door) -> None:
    watched = Places(1000, trusts=lambda address: address == "127.0.0.3", idle_of_address=10)
    many, few, proxy = (door.connect(n, source=f"127.0.0.{n % 4}") for n in (14, 5, 15))
    busy = many[0].getsockname()
    watched.enter(busy)
    assert watched.close_idle(door.port) == 3
    assert len(list_closed(many)) == 3 and 0 not in list_closed(many)
    assert list_closed(few) == list_closed(proxy) == []
    watched.leave(busy)
    assert watched.close_idle(door.port) == 1, "its request is over"


def test_when_most_places_are_taken_idle_connections_of_anybody_are_closed(door: Door) -> None:
    watched = Places(40, trusts=lambda _address: True, idle_of_address=100)
    ends = [end for n in range(2, 37) for end in door.connect(1, source=f"127.0.0.{n}")]
    for end in ends[:3]:
        watched.enter(end.getsockname())
    assert watched.close_idle(door.port) == 5
    assert not {0, 1, 2} & set(list_closed(ends))


def test_a_connection_in_which_something_moved_just_now_is_left_alone(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "YOUNG_MS", 60_000)
    ends = door.connect(20)
    assert Places(10, trusts=lambda _address: False, idle_of_address=1).close_idle(door.port) == 0
    assert list_closed(ends) == []
