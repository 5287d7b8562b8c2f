"""Bodies as the event loop reads them: under a size, a deadline and a rate."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.factories.loops import run_loop
from webapp.core.errors import TooLarge, Unavailable
from webapp.runtime.web import bodies
from webapp.runtime.web.bodies import Body, Buffers, Incoming, SenderGone, TooSlow

PIECE = b"x" * 1000


def incoming(
    pieces: Iterable[bytes], *headers: tuple[bytes, bytes], every_s: float = 0, gone: bool = False
) -> Incoming:
    """A body that arrives in pieces."""
    left = list(pieces)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(every_s)
        if not left and gone:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or gone}

    return Incoming(receive, method="POST", headers=headers)


def keep(source: Incoming, folder: Path, *, buffers: Buffers | None = None) -> tuple[bytes, int]:
    """The whole body, and how much of it was counted as in memory behind it."""
    kept = buffers or Buffers(10_000_000)

    async def read() -> tuple[bytes, int]:
        body = Body(buffers=kept, folder=folder)
        try:
            await body.read_all(source)
            assert body.length == source.received
            return body.file.read(), kept.held
        finally:
            body.close()

    try:
        return run_loop(read())
    finally:
        assert kept.held == 0


def test_short_bodies_stay_in_memory_and_long_ones_do_not(tmp_path: Path) -> None:
    assert keep(incoming([PIECE] * 10), tmp_path) == (PIECE * 10, 10_000)
    assert keep(incoming([PIECE] * 3000), tmp_path) == (PIECE * 3000, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_long_body_gives_its_room_back_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "DRAINED_BYTES", 1_000_000)
    content = [bytes([number % 251]) * 10_000 for number in range(400)]

    async def take() -> tuple[bytes, list[int]]:
        body = Body(buffers=Buffers(10_000_000), folder=tmp_path)
        try:
            await body.read_all(incoming(content))
            assert isinstance(body.file, bodies.Draining) and body._disk_file is not None
            number, seen, sizes = body._disk_file.fileno(), b"", []
            while piece := body.file.read(500_000):
                seen += piece
                sizes.append(os.fstat(number).st_blocks * 512)
            return seen, sizes
        finally:
            body.close()

    seen, sizes = run_loop(take())
    assert seen == b"".join(content)
    assert sizes[0] >= 3_900_000 and sizes[-1] < 1_100_000


def test_all_bodies_together_have_a_limit(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        keep(incoming([PIECE] * 10), tmp_path, buffers=Buffers(5000))


def test_what_nobody_known_has_sent_counts_with_the_rest(tmp_path: Path) -> None:
    buffers = Buffers(2 * bodies.UNKNOWN_BYTES)

    async def read_heads(*sources: Incoming) -> list[int]:
        read_bodies = [Body(buffers=buffers, folder=tmp_path) for _ in sources]
        try:
            for body, source in zip(read_bodies, sources, strict=True):
                await body.read_head(source)
            return [body.length for body in read_bodies]
        finally:
            for body in read_bodies:
                body.close()

    announced = incoming([PIECE] * 20, (b"content-length", b"20000"))
    assert run_loop(read_heads(incoming([PIECE] * 5), incoming([PIECE] * 20), announced)) == [5000, 17_000, 0]
    with pytest.raises(Unavailable):
        run_loop(read_heads(*(incoming([PIECE] * 12) for _ in range(3))))
    assert buffers.held == 0


def test_more_than_the_limit_is_refused_unread_where_it_is_announced(tmp_path: Path) -> None:
    for source in (incoming([PIECE] * 10, (b"content-length", b"10000")), incoming([PIECE] * 10)):
        source.limit = 2500
        with pytest.raises(TooLarge):
            keep(source, tmp_path)
        assert source.received in (0, 3000)


def test_who_is_too_slow_or_gone_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "GRACE_S", 0.2)
    monkeypatch.setattr(bodies, "RATE", 1_000_000)
    with pytest.raises(TooSlow):
        keep(incoming([b"x"] * 1000, every_s=0.02), tmp_path)
    for header in ((b"content-length", b"5000"), (b"transfer-encoding", b"chunked")):
        with pytest.raises(SenderGone):
            keep(incoming([PIECE], header, gone=True), tmp_path)


def test_a_pause_is_too_long_however_fast_the_sender_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "STALL_S", 0.1)
    with pytest.raises(TooSlow):
        keep(incoming([PIECE] * 10, every_s=1), tmp_path)
