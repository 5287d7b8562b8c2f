"""A push asks for room while it arrives, not only before its first byte."""

from __future__ import annotations

import pytest

from tests.factories.loops import run_loop
from webapp.core.errors import StorageFull
from webapp.repositories.views import git_http
from webapp.runtime.web.bodies import Incoming

PIECE = b"x" * 1024 * 1024


def test_a_push_that_finds_the_disk_full_in_its_middle_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": PIECE, "more_body": True}

    incoming = Incoming(receive, method="POST", headers=[(b"transfer-encoding", b"chunked")])

    def check_room() -> None:
        sizes.append(incoming.received)
        if len(sizes) == 3:
            message = "The disk is full."
            raise StorageFull(message)

    async def push() -> None:
        read = git_http._reading(incoming)
        while await read():
            continue

    monkeypatch.setattr(git_http, "check_room", check_room)
    with pytest.raises(StorageFull):
        run_loop(push())
    assert sizes == [git_http.ROOM_EVERY * times for times in (1, 2, 3)]
