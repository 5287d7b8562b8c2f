"""Pages and the REST API: their bodies are complete, and their senders known where they send much, before a thread runs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from django.db import DatabaseError

from webapp.core.errors import AppError
from webapp.core.failures import explain_failure
from webapp.runtime.web import shares
from webapp.runtime.web.answers import Scope, Send, send_refusal
from webapp.runtime.web.bodies import WITHOUT_BODY, Body, Buffers, Incoming, Receive, refuse_body
from webapp.runtime.web.bridge import WsgiBridge
from webapp.runtime.web.gates import Gate, Overloaded

logger = logging.getLogger(__name__)
LARGE_AT_ONCE = 64
"""So many long bodies may arrive at a time."""


class PagesApp:
    """The WSGI half of the application."""

    def __init__(
        self,
        bridge: WsgiBridge,
        *,
        gate: Gate,
        buffers: Buffers,
        folder: Path,
        find_limit: Callable[[list[tuple[bytes, bytes]], str], tuple[str, int]],
        find_owner: Callable[[Scope], Awaitable[str]],
        is_upload: Callable[[str], bool],
        note_refused: Callable[[Scope, AppError], None],
    ) -> None:
        """Answer by a bridge.

        Args:
            bridge: to the application.
            gate: of the threads that find out who sends a long body.
            buffers: of all bodies.
            folder: where long bodies are kept while they arrive.
            find_limit: who sends these headers, and how many bytes they may send to a path; raises where it is nobody known.
            find_owner: whose share of the threads a request uses.
            is_upload: whether a path takes long to answer even where its body is short.
            note_refused: keeps what is refused here.

        """
        self._bridge = bridge
        self._gate = gate
        self._buffers = buffers
        self._folder = folder
        self._find_limit = find_limit
        self._find_owner = find_owner
        self._is_upload = is_upload
        self._note_refused = note_refused
        self._large = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        incoming = Incoming(receive, method=scope["method"], headers=scope["headers"])
        body = Body(buffers=self._buffers, folder=self._folder)
        try:
            with ExitStack() as held:
                await self._read(scope, incoming, body, held)
                owner = await self._find_owner(scope)
                await self._bridge.answer(scope, body.file, body.length, send, owner=owner)
        except (AppError, DatabaseError, OSError) as error:
            refusal = error if isinstance(error, AppError) else explain_failure(error)
            if refusal is None:
                raise
            body.close()
            logger.info("%s %s refused: %s %s", scope["method"], scope["path"], refusal.status, refusal.code)
            self._note_refused(scope, refusal)
            await send_refusal(scope, send, refusal)
            await incoming.drop()
        finally:
            body.close()

    async def _read(self, scope: Scope, incoming: Incoming, body: Body, held: ExitStack) -> None:
        if scope["method"] in WITHOUT_BODY:
            refuse_body(incoming, what=scope["method"])
        await body.read_head(incoming)
        if not incoming.is_over or (scope["method"] == "POST" and self._is_upload(scope["path"])):
            sender, incoming.limit = await self._gate.run(self._find_limit, scope["headers"], scope["path"])
            incoming.check_size()
            held.enter_context(shares.uploads.taking(sender))
        if self._large >= LARGE_AT_ONCE and not incoming.is_over:
            raise Overloaded
        self._large += 1
        try:
            await body.read_all(incoming)
        finally:
            self._large -= 1
