"""Git's smart HTTP protocol: `git http-backend` as a child process, its hooks answered by this process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from webapp.git.errors import GitError
from webapp.git.locks import Lease
from webapp.git.program import GIT_ENVIRONMENT, limit_memory
from webapp.git.values import RefUpdate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

__all__ = ["ROUTES", "BackendRequest", "BackendResponse", "Hooks", "is_push", "remove_dead_folders", "run_backend"]

logger = logging.getLogger(__name__)

HOOKS = Path(__file__).parent / "hooks"
ROUTES = {("GET", "info/refs"), ("POST", "git-upload-pack"), ("POST", "git-receive-pack")}
SERVICES = {"git-upload-pack", "git-receive-pack"}
MAX_PUSH_BYTES = 1024 * 1024 * 1024
PUSH_SECONDS = 900
_CHUNK = 64 * 1024
_MAX_EARLY_ANSWER = 1024 * 1024
"""What Git may say while its request is still being sent; more holds it up until then."""
_REFUSAL_SECONDS = 10
_END_SECONDS = 60
"""So long the end of a request may take behind all that Git needs of it."""
_CUT_OFF = "The push ended before its request did, and nothing was changed."
_MAX_HOOK_LINE = 1024 * 1024
_PREFIX = "tributary-push-"
"""Of the folders in which hooks reach this process."""
_PROTOCOL = re.compile(r"version=[0-2]\Z")
# Pushes whose client has gone away still run to their end; tasks without a reference may be collected.
_running: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRequest:
    """What of an HTTP request Git needs."""

    repository: Path
    route: str
    method: str
    query: str
    content_type: str = ""
    content_encoding: str = ""
    protocol: str = ""
    remote_user: str = ""
    remote_addr: str = ""
    max_push_bytes: int = MAX_PUSH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendResponse:
    """What Git answers: status and headers are known, the body follows."""

    status: int
    headers: list[tuple[str, str]]
    body: AsyncGenerator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What decides on a push, and what hears of it. Both return lines that the user sees as `remote: …`."""

    check: Callable[[list[RefUpdate], str], Awaitable[list[str]]]
    """Why the push is refused; nothing lets it in. Asked with what of it is larger than a repository takes."""
    done: Callable[[list[RefUpdate]], Awaitable[list[str]]]
    """Called with the refs that moved."""


def is_push(*, route: str, service: str) -> bool:
    """Say whether a request is part of a push."""
    return "git-receive-pack" in (route, service)


async def run_backend(
    request: BackendRequest, *, read_body: Callable[[], Awaitable[bytes]], hooks: Hooks | None
) -> BackendResponse:
    """Start Git on a request, hand it the body while that arrives, and return when its headers are known.

    Args:
        request: what is asked.
        read_body: gives the next piece, empty at the end. What it raises is raised here when Git has ended: a push that
            lacks its end changes nothing.
        hooks: of a push.

    """
    run = _Run(request=request, hooks=hooks)
    try:
        await run.start()
        # Git's headers come at once, but not before the end of the body may an answer begin: clients stop sending.
        await run.feed(read_body)
        status, headers = await run.read_headers()
    except BaseException:
        await run.stop()
        raise
    return BackendResponse(status=status, headers=headers, body=run.stream())


def remove_dead_folders() -> None:
    """Remove the folders of pushes whose process was killed: nobody answers their hooks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(folder / "hook"))
            except ConnectionRefusedError:
                shutil.rmtree(folder, ignore_errors=True)
            except OSError:
                continue  # somebody else's, or of a push that just begins


@dataclass(slots=True)
class _Run:
    request: BackendRequest
    hooks: Hooks | None
    process: asyncio.subprocess.Process = field(init=False)
    lease: Lease | None = None
    server: asyncio.Server | None = None
    folder: str = ""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    body_ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_whole: bool = False

    async def start(self) -> None:
        if self.hooks is not None:
            # A path in the state folder could be longer than a socket's name may be.
            self.folder = tempfile.mkdtemp(prefix=_PREFIX)
            self.server = await asyncio.start_unix_server(
                self._answer_hook, path=f"{self.folder}/hook", limit=_MAX_HOOK_LINE
            )
            # A slow push arrives for long before it locks anything.
            self.lease = Lease(self.request.repository, is_writing=False)
        self.process = await asyncio.create_subprocess_exec(
            "git",
            "http-backend",
            env=self._environment(),
            cwd="/",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            # Git and its hooks hold the lease beyond the death of this process.
            pass_fds=() if self.lease is None else (self.lease.descriptor,),
            limit=_MAX_EARLY_ANSWER,
        )
        limit_memory(self.process.pid)
        self.tasks = [asyncio.create_task(self._log_errors())]

    def _environment(self) -> dict[str, str]:
        request = self.request
        service = request.query.removeprefix("service=") if request.query.startswith("service=") else ""
        config = {
            "core.hooksPath": str(HOOKS) if self.hooks is not None else "/dev/null",
            "http.receivepack": "true",
            "receive.maxInputSize": str(request.max_push_bytes),
            "transfer.fsckObjects": "true",
            "receive.fsckObjects": "true",
            "core.fsmonitor": "false",
            # What is larger is copied piece by piece; the rest fits into the memory that Git may take.
            "core.bigFileThreshold": "20m",
            "pack.windowMemory": "256m",
            "receive.autogc": "false",
            "gc.auto": "0",
        }
        # Without CONTENT_LENGTH: Git 2.39 asks again and again, for ever, for what is missing of a length when its input has
        # ended, as it does when this process is killed. How long a body is has been checked before.
        environment = {
            **GIT_ENVIRONMENT,
            "GIT_PROJECT_ROOT": str(request.repository.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{request.repository.name}/{request.route}",
            "QUERY_STRING": f"service={service}" if service in SERVICES else "",
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.content_type,
            "REMOTE_USER": request.remote_user,
            "REMOTE_ADDR": request.remote_addr,
            "GIT_CONFIG_COUNT": str(len(config)),
        }
        for position, (name, value) in enumerate(config.items()):
            environment[f"GIT_CONFIG_KEY_{position}"] = name
            environment[f"GIT_CONFIG_VALUE_{position}"] = value
        if request.content_encoding in {"gzip", "x-gzip"}:
            environment["HTTP_CONTENT_ENCODING"] = request.content_encoding
        if _PROTOCOL.match(request.protocol):
            environment["GIT_PROTOCOL"] = request.protocol
        if self.hooks is not None:
            environment["TRIBUTARY_PYTHON"] = sys.executable
            environment["TRIBUTARY_HOOK_SOCKET"] = f"{self.folder}/hook"
        return environment

    async def feed(self, read_body: Callable[[], Awaitable[bytes]]) -> None:
        """Write the body to Git; one that has ended early does not read it, and gets none of the rest."""
        stdin = self.process.stdin
        if stdin is None:
            return
        try:
            while chunk := await read_body():
                if stdin.is_closing():
                    continue
                with suppress(BrokenPipeError, ConnectionResetError):
                    stdin.write(chunk)
                    await stdin.drain()
        except BaseException:
            # Git refuses what ends in its middle, the hook what only seems whole; either removes what it had taken in.
            self.body_ended.set()
            stdin.close()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), _REFUSAL_SECONDS)
            raise
        self.is_whole = True
        self.body_ended.set()
        with suppress(BrokenPipeError, ConnectionResetError):
            stdin.close()
            await stdin.wait_closed()

    async def _log_errors(self) -> None:
        stderr = self.process.stderr
        if stderr is None:
            return
        text = b""
        while chunk := await stderr.read(_CHUNK):
            text = (text + chunk)[-4096:]
        if text:
            logger.info("git http-backend: %r", text.decode("utf-8", "replace"))

    async def read_headers(self) -> tuple[int, list[tuple[str, str]]]:
        stdout = self._stdout()
        status = 200
        headers: list[tuple[str, str]] = []
        while True:
            line = await stdout.readline()
            if not line:
                msg = "git http-backend ended without an answer."
                raise GitError(msg)
            text = line.decode("latin-1").rstrip("\r\n")
            if not text:
                return status, headers
            name, _, value = text.partition(":")
            if name.lower() == "status":
                status = int(value.split()[0])
            else:
                headers.append((name, value.strip()))

    async def stream(self) -> AsyncGenerator[bytes]:
        stdout = self._stdout()
        try:
            while chunk := await stdout.read(_CHUNK):
                yield chunk
            await self.process.wait()
        finally:
            if self.process.returncode is None and self.hooks is not None:
                # The client has gone. What it pushed may be about to land: let Git finish, and hear of it.
                task = asyncio.get_running_loop().create_task(self._finish_alone())
                _running.add(task)
                task.add_done_callback(_running.discard)
            else:
                await asyncio.shield(asyncio.ensure_future(self.stop()))

    async def _finish_alone(self) -> None:
        stdout = self._stdout()
        try:
            async with asyncio.timeout(PUSH_SECONDS):
                while await stdout.read(_CHUNK):
                    pass
                await self.process.wait()
        except TimeoutError:
            logger.warning("a push without a client did not end in %s s", PUSH_SECONDS)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """End the process group if it still runs, and clean up."""
        process = getattr(self, "process", None)
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        for task in self.tasks:
            task.cancel()
        if self.server is not None:
            self.server.close()
        if self.lease is not None:
            self.lease.release()
            self.lease = None
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _stdout(self) -> asyncio.StreamReader:
        if self.process.stdout is None:
            msg = "git http-backend has no output."
            raise GitError(msg)
        return self.process.stdout

    async def _answer_hook(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.hooks is None:
            return
        try:
            question = json.loads(await reader.readline())
            updates = [RefUpdate(**update) for update in question["updates"]]
            if question["hook"] == "pre-receive":
                # Git knows the end of a push by its content, and asks before the end of the request.
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.body_ended.wait(), _END_SECONDS)
                lines = await self.hooks.check(updates, question["excess"]) if self.is_whole else [_CUT_OFF]
                accepted = not lines
                if accepted and self.lease is not None:
                    self.lease.begin()
            else:
                lines, accepted = await self.hooks.done(updates), True
            writer.write(json.dumps({"accepted": accepted, "lines": lines}).encode() + b"\n")
            await writer.drain()
        finally:
            # Where the answer failed the hook reads nothing and refuses the push.
            writer.close()
