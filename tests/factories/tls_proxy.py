"""A small proxy that ends TLS, as nginx or Caddy would in front of an installation."""

from __future__ import annotations

import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TlsProxy:
    """A running proxy."""

    port: int
    certificate: Path

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"https://localhost:{self.port}"


@contextmanager
def running_tls_proxy(folder: Path, *, port: int, to: int) -> Iterator[TlsProxy]:
    """Serve TLS on a port of loopback, and hand requests on to another in plain HTTP."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), context.wrap_socket(self.request, server_side=True) as outside:
                head, body = _read_request(outside)
                told = f"X-Forwarded-For: {self.client_address[0]}\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n"
                with socket.create_connection(("127.0.0.1", to)) as inside:
                    inside.sendall(head + b"\r\n" + told.encode() + body)
                    while piece := inside.recv(65536):
                        outside.sendall(piece)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", port), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield TlsProxy(port=port, certificate=certificate)
        server.shutdown()


def _read_request(source: socket.socket) -> tuple[bytes, bytes]:
    """The head without `Connection`, and the whole body."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _read(source)
    head, _, body = received.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    lengths = [int(line.partition(b":")[2]) for line in lines if line.lower().startswith(b"content-length:")]
    while len(body) < sum(lengths):
        body += _read(source)
    return b"\r\n".join(lines), body


def _read(source: socket.socket) -> bytes:
    piece = source.recv(65536)
    if not piece:
        raise ConnectionAbortedError
    return piece
