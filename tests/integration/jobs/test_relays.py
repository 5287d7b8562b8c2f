"""Relays of sandboxes are started by a small process, and end with their keeper."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Iterator

import pytest

from jobs.entrypoints import relays
from jobs.entrypoints.keeper import Door
from jobs.entrypoints.relays import RelayStarter

pytestmark = pytest.mark.integration
DOORS = [Door("127.0.0.1", 8000, "127.0.0.1")]


@pytest.fixture
def starter() -> Iterator[RelayStarter]:
    started = relays.begin()
    yield started
    started.close()
    os.waitpid(-1, 0)


def test_relay_ends_with_its_keeper(starter: RelayStarter) -> None:
    told, tells = socket.socketpair()
    keeper = os.fork()
    if keeper == 0:
        near, far = socket.socketpair()
        socket.send_fds(tells, [b"1"], [starter.start(far, DOORS)])
        signal.pause()
        near.close()
    (relay,) = socket.recv_fds(told, 1, 1)[1]
    assert not select.select([relay], [], [], 0.2)[0]
    os.kill(keeper, signal.SIGKILL)
    os.waitpid(keeper, 0)
    assert select.select([relay], [], [], 5)[0]


def test_start_fails_without_starter() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    far.close()
    channel, other = socket.socketpair()
    with near, channel, other, pytest.raises(OSError):
        RelayStarter(near).start(channel, DOORS)


def test_start_refuses_message_that_would_be_cut(starter: RelayStarter) -> None:
    channel, other = socket.socketpair()
    with channel, other, pytest.raises(OSError, match="too many doors"):
        starter.start(channel, DOORS * 2000)
