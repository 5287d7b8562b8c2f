"""Pages and the REST API: their bodies are complete, and their senders known where they send much, before a thread runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from webapp.core.errors import AppError
from webapp.core.failures import explain_failure
from webapp.core.web.answers import Scope, Send, send_refusal
from webapp.core.web.bodies import WITHOUT_BODY, Body, Buffers, Incoming, Receive, refuse_body
from webapp.core.web.bridge import WsgiBridge
from webapp.core.web.gates import Gate, Overloaded

logger = logging.getLogger(__name__)
LARGE_AT_ONCE = 64
"""So many long bodies may arrive at a time."""


class Pages:
    """The WSGI half of the application."""

    def __init__(
        self,
        bridge: WsgiBridge,
        *,
        gate: Gate,
        buffers: Buffers,
        folder: Path,
        find_limit: Callable[[list[tuple[bytes, bytes]], str], int],
    ) -> None:
        """Answer by a bridge.

        Args:
            bridge: to the application.
            gate: of the threads that find out who sends a long body.
            buffers: of all bodies.
            folder: where long bodies are kept while they arrive.
            find_limit: how many bytes who sends these headers may send to a path; raises where it is nobody known.

        """
        self._bridge = bridge
        self._gate = gate
        self._buffers = buffers
        self._folder = folder
        self._find_limit = find_limit
        self._large = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        incoming = Incoming(receive, method=scope["method"], headers=scope["headers"])
        body = Body(buffers=self._buffers, folder=self._folder)
        try:
            await self._read(scope, incoming, body)
            await self._bridge.answer(scope, body.file, body.length, send)
        except (AppError, OSError) as error:
            known = error if isinstance(error, AppError) else explain_failure(error)
            if known is None:
                raise
            body.close()
            logger.info("%s %s refused: %s %s", scope["method"], scope["path"], known.status, known.code)
            await send_refusal(scope, send, known)
            await incoming.drop()
        finally:
            body.close()

    async def _read(self, scope: Scope, incoming: Incoming, body: Body) -> None:
        if scope["method"] in WITHOUT_BODY:
            refuse_body(incoming, what=scope["method"])
        head = await incoming.read_head()
        if not incoming.is_over:
            incoming.limit = await self._gate.run(self._find_limit, scope["headers"], scope["path"])
            incoming.check_size()
        if self._large >= LARGE_AT_ONCE and not incoming.is_over:
            raise Overloaded
        self._large += 1
        try:
            await body.read_all(incoming, head=head)
        finally:
            self._large -= 1
