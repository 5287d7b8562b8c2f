"""One port. The event loop takes every request in, and hands it on when it is complete: the catalog and Git beside Django,
event streams to Django's ASGI, pages and the REST API to its WSGI, whose ordinary views are many times faster there.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import OrderedDict
from contextlib import ExitStack
from hashlib import sha256

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

streams = get_asgi_application()
wsgi = get_wsgi_application()

from django.conf import settings  # noqa: E402 - after the apps are ready, as all below
from django.db import DatabaseError, close_old_connections  # noqa: E402
from django.http import parse_cookie  # noqa: E402

from webapp.accounts.queries import find_sender  # noqa: E402
from webapp.accounts.services import note_turned_away, start_flushing  # noqa: E402
from webapp.catalog.api.asgi import application as catalog  # noqa: E402
from webapp.catalog.api.asgi import gate as catalog_gate  # noqa: E402
from webapp.core.errors import AppError  # noqa: E402
from webapp.git.http_backend import remove_dead_folders  # noqa: E402
from webapp.repositories.views.git_http import application as git  # noqa: E402
from webapp.runtime.health import register_gate  # noqa: E402
from webapp.runtime.room import check_room  # noqa: E402
from webapp.runtime.web import bodies  # noqa: E402
from webapp.runtime.web.answers import TEXT, Scope, Send, send_answer, send_refusal  # noqa: E402
from webapp.runtime.web.bodies import Incoming, Receive, refuse_body  # noqa: E402
from webapp.runtime.web.bridge import WsgiBridge  # noqa: E402
from webapp.runtime.web.gates import Gate, Overloaded  # noqa: E402
from webapp.runtime.web.limits import find_body_limit  # noqa: E402
from webapp.runtime.web.pages import PagesApp  # noqa: E402
from webapp.runtime.web.places import CONNECTIONS, IDLE_OF_ADDRESS, Places  # noqa: E402
from webapp.runtime.web.proxies import Proxies, drop_underscores  # noqa: E402
from webapp.runtime.web.pulse import LoopPulse  # noqa: E402
from webapp.runtime.web.shares import UNTIL_SENT  # noqa: E402
from webapp.runtime.web.watchdog import Watchdog  # noqa: E402

CATALOG = "/iceberg"
STREAMS = 400
"""Event streams of one process; each keeps a thread that sleeps."""
OWNERS = 10_000
_UPLOAD = re.compile(r"(^|/datasets/\d+)/upload\Z")


def _read_credentials(headers: list[tuple[bytes, bytes]]) -> tuple[str, str]:
    """Return the Authorization header and the session key of a request; empty texts without them."""
    fields = {name: value.decode("latin-1") for name, value in headers if name in (b"authorization", b"cookie")}
    session_key = parse_cookie(fields.get(b"cookie", "")).get(settings.SESSION_COOKIE_NAME, "")
    return fields.get(b"authorization", ""), session_key


def _find_user(credentials: tuple[str, str]) -> str:
    """Return the user behind credentials; empty if they are not valid."""
    close_old_connections()
    try:
        return find_sender(authorization=credentials[0], session_key=credentials[1])
    except (AppError, DatabaseError):
        return ""


async def _find_owner(scope: Scope) -> str:
    """Return whose share of the page threads a request uses: its user's, or that of its address without a valid user.

    Credentials are looked up once: new sessions and tokens of a user give no further share.
    """
    authorization, session_key = _read_credentials(scope["headers"])
    # What the application does not read is ignored: it cannot make one session look like many.
    is_token = scope["path"].startswith("/api/") and authorization.lower().startswith("bearer ")
    credentials = (authorization, "") if is_token else ("", session_key)
    key = sha256("\n".join(credentials).encode()).digest()
    user = _owners.get(key, "")
    if not user and any(credentials):
        user = await _senders.run(_find_user, credentials)
        if user:
            _owners[key] = user
            while len(_owners) > OWNERS:
                _owners.popitem(last=False)
    return f"user {user}" if user else f"address {(scope.get('client') or ('',))[0]}"


def _find_limit(headers: list[tuple[bytes, bytes]], path: str) -> tuple[str, int]:
    """Return who sends these headers, and how much they may send to a path; refuse who is nobody known."""
    close_old_connections()
    authorization, session_key = _read_credentials(headers)
    sender = find_sender(authorization=authorization, session_key=session_key)
    limit = find_body_limit(path)
    if limit > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        check_room()
    return sender, limit


def _note_refused(scope: Scope, error: AppError) -> None:
    address = (scope.get("client") or ("",))[0]
    note_turned_away(method=scope["method"], path=scope["path"], address=address, error=error)


def _find_gate(path: str) -> Gate:
    """Return the threads that answer a path: what waits for others, and what tells of our health, has its own."""
    if path == "/readyz":
        return _readiness
    if path.startswith(("/login/provider", "/logout/provider")):
        return _provider
    return _uploads if _is_upload(path) else _ordinary


def _is_upload(path: str) -> bool:
    return _UPLOAD.search(path) is not None


_ordinary = Gate("pages", threads=8, waiting=128, share=3)
_uploads = Gate("uploads", threads=16, waiting=64, patience_s=300, deadline_s=900)
_provider = Gate("sign-ins by the provider", threads=4, waiting=64)
_senders = Gate("senders", threads=2, waiting=256)
_readiness = Gate("readiness", threads=1, waiting=8)
for _gate in (catalog_gate, _ordinary):
    register_gate(_gate)
proxies = Proxies(settings.TRIBUTARY_PROXIES)
pages = PagesApp(
    WsgiBridge(wsgi, _find_gate),
    gate=_senders,
    buffers=bodies.memory,
    folder=settings.FILE_UPLOAD_TEMP_DIR,
    find_limit=_find_limit,
    find_owner=_find_owner,
    is_upload=_is_upload,
    note_refused=_note_refused,
)
places = Places(CONNECTIONS, trusts=proxies.trusts, idle_of_address=IDLE_OF_ADDRESS)
pulse = LoopPulse()
_streaming: set[int] = set()
_owners: OrderedDict[bytes, str] = OrderedDict()
"""Users by a digest of their credentials, as they were looked up; a right is never taken from here."""
_watchdog = Watchdog()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Hand a request to what serves it."""
    if scope["type"] == "lifespan":
        await _answer_lifespan(receive, send)
        return
    if scope["type"] != "http":
        await send({"type": "websocket.close"})
        return
    address, port = scope.get("client") or ("", 0)
    peer = address, int(port)  # the server gives it as text
    places.enter(peer)
    try:
        await _answer(proxies.unwrap(scope), receive, send)
    finally:
        places.leave(peer)


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    path = scope["path"]
    if path == "/healthz":
        # By the loop alone: a busy process is no dead one.
        await send_answer(send, status=200, body=b"ok\n", kind=TEXT)
    elif path == CATALOG or path.startswith(CATALOG + "/"):
        # It has the headers as they were sent, and refuses a branch that is named by the wrong one.
        await catalog(scope, receive, send)
    elif path.startswith("/git/"):
        await git(drop_underscores(scope), receive, send)
    elif path.startswith("/events/"):
        await _stream(drop_underscores(scope), receive, send)
    else:
        await pages(drop_underscores(scope), receive, send)


async def _stream(scope: Scope, receive: Receive, send: Send) -> None:
    incoming = Incoming(receive, method=scope["method"], headers=scope["headers"])
    try:
        refuse_body(incoming, what="An event stream")
        if len(_streaming) >= STREAMS:
            raise Overloaded
    except AppError as error:
        _note_refused(scope, error)
        await send_refusal(scope, send, error)
        await incoming.drop()
        return
    _streaming.add(id(scope))
    try:
        with ExitStack() as until_sent:
            inner = {**scope, UNTIL_SENT: until_sent}
            await streams(inner, receive, send)  # type: ignore[arg-type]  # its Send is narrower than ASGI's
    finally:
        _streaming.discard(id(scope))


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            _watchdog.watch(asyncio.get_running_loop())
            pulse.start()
            start_flushing()
            remove_dead_folders()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
