"""The channel between the web and what reads for it, when the other side has been taken over."""

from __future__ import annotations

import json
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from jobs.channel import Channel, TooLong

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield Channel(near, at_most=1_000_000, seconds=5), far


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 20_000, b"[]", b"7", b"{", b"\xff"])
def test_what_is_no_message_is_refused(pair: tuple[Channel, socket.socket], text: bytes) -> None:
    channel, far = pair
    far.sendall(struct.pack("!II", len(text), 0) + text)
    with pytest.raises(ValueError):
        channel.receive()


def test_a_message_that_is_too_long_is_not_taken(pair: tuple[Channel, socket.socket]) -> None:
    channel, far = pair
    far.sendall(struct.pack("!II", 2, 2**32 - 1))
    with pytest.raises(TooLong):
        channel.receive()


def test_a_channel_tells_whether_something_has_come(pair: tuple[Channel, socket.socket]) -> None:
    channel, far = pair
    assert channel.is_quiet
    body = json.dumps({"a": 1}).encode()
    far.sendall(struct.pack("!II", len(body), 0) + body)
    assert not channel.is_quiet
    assert channel.receive().body == {"a": 1}
    assert channel.is_quiet
    far.close()
    assert not channel.is_quiet
