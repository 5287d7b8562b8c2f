"""The web part as a program: `python -m webapp.config.web [--socket-fd N | --host H --port N] [--workers N]`.

Granian with two things of our own. The listening socket may come from the supervisor: while a new web process comes up,
connections wait in it and none is refused. And the workers die with their parent, even by `kill -9`: one that lived on
would serve beside the next.

The parent imports everything before it forks the workers, so a worker that died is replaced in a moment.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import resource
import socket
from functools import partial
from typing import Any

import django
from django.conf import settings
from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import MPServer

from webapp.runtime.lifelines import die_with
from webapp.runtime.pulses import take_pipe
from webapp.runtime.web.places import CONNECTIONS

BACKLOG = 1024
HEAD_MS = 10_000
"""So long a connection may take for the head of a request, the next one included."""
BUFFER = 64 * 1024
"""Of one connection, and so of the head of a request."""
TARGET = "webapp.config.asgi:application"


class WebServer(MPServer):
    """Granian whose workers share one socket that was opened before."""

    def __init__(self, listener: socket.socket, *, workers: int) -> None:
        super().__init__(
            TARGET,
            interface=Interfaces.ASGI,
            workers=workers,
            websockets=False,
            # Connections of HTTP/2 have no deadline for their first bytes.
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(max_buffer_size=BUFFER, header_read_timeout=HEAD_MS),
            backpressure=CONNECTIONS,
            log_level=LogLevels.warning,
            backlog=BACKLOG,
            respawn_failed_workers=True,
        )
        self._listener = listener

    def _init_shared_socket(self) -> None:
        number = self._listener.fileno()
        holder: Any = SocketHolder  # its stub knows no arguments: descriptor, whether it is a Unix socket, backlog
        vars(self).update(_sfd=number, _shd=holder(number, False, BACKLOG), _ssp=None, _sso=None)


def load_application(_target: str, *, parent: int, port: int, pipe: int | None) -> Any:
    """Load the application, in each worker right after its fork."""
    die_with(parent)
    from webapp.accounts.queries import session_uses, token_uses
    from webapp.config import asgi

    token_uses.start()
    session_uses.start()
    asgi.places.watch(port)
    asgi.pulse.use(pipe)
    return asgi.application


def main() -> None:
    """Serve until told to stop."""
    gc.disable()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
    parser = argparse.ArgumentParser(prog="python -m webapp.config.web")
    parser.add_argument("--socket-fd", type=int, help="a listening socket that the caller has opened")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=settings.TRIBUTARY_WEB_WORKERS)
    options = parser.parse_args()
    listener = (
        open_listener(options.host, options.port)
        if options.socket_fd is None
        else socket.socket(fileno=options.socket_fd)
    )
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # every connection is one, and the usual limit is 1,024
    django.setup()
    importlib.import_module("webapp.config.urls")
    # What was imported stays for good. Looking through it for garbage takes a sixth of the start, would hold up a request
    # for a tenth of a second now and then, and would copy the memory that the workers share.
    gc.collect()
    gc.freeze()
    gc.enable()
    parent = os.getpid()
    load = partial(
        load_application,
        parent=parent,
        port=listener.getsockname()[1],
        pipe=take_pipe(),
    )
    WebServer(listener, workers=options.workers).serve(target_loader=load)


def open_listener(host: str, port: int) -> socket.socket:
    """Open the socket of the web part. Raises OSError where the port is in use."""
    return socket.create_server((host, port), backlog=BACKLOG)


if __name__ == "__main__":
    main()
