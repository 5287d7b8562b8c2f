"""A warm process that forks jobs: libraries are imported once, a job starts in milliseconds.

Start it from a clean environment (children inherit nothing else, but their environment block in /proc is this one):
``python -m jobs.entrypoints.forkserver --socket $TRIBUTARY_HOME/run/fork.sock [--mode auto|full|user|off]``.
It listens before it has imported anything; a caller that connects early waits, it is not refused. The socket has mode
0600. SIGTERM ends the server and with it every job; so does its death by any signal (see sandbox.py).

The protocol
------------
One connection (SOCK_STREAM) is one request. Lines of JSON, each ended by a newline, UTF-8.

1. The caller sends one line. With `entrypoint` the message must carry exactly one file descriptor by SCM_RIGHTS, sent
   together with the first byte of the line (`socket.send_fds(sock, [line], [fd])`): it becomes stdout and stderr of the
   job. The caller closes its own copy; end of file on its pipe means that the job and all it started are gone. A second
   descriptor, sent with the first, becomes descriptor 3 of the job: a socket to its caller (see jobs/channel.py). ::

     {"op": "run",                           # may be left out when "entrypoint" is there
      "entrypoint": "publish"|"run"|"upload"|"load"|"diff"|"changelog"|"blame"|"query"|"read"|"artifact"|"interrupt"
                    |"sample"|"preview"|"describe"|"tables"|"manifests",
      "manifest": "/abs/path/manifest.json", # passed to jobs.entrypoints.<entrypoint>.main(path) -> exit code
      "cwd": "/abs/path",                    # must be visible inside; default "/"
      "env": {"NAME": "value"},              # the whole environment of the job
      "limits": {"memory_bytes": 4294967296, "cpu_s": 3600, "nproc": 512, "nofile": 1024, "fsize": 4294967296,
                "disk_bytes": 10737418240,     # all that it may add to its writable folders
                "total_memory_bytes": 4294967296},  # all that its processes may hold; memory_bytes is each one's address space
      "sandbox": {"readonly": ["/abs", ...], "writable": ["/abs", ...], "layered": ["/abs", ...], "uid": 200123, "gid": 200123,
                  "sealed": ["/abs", ...], "seal": "/abs/seal.json", "tmp_bytes": 1073741824, "ports": [8000],
                  "hosts": ["store.example:443"], "hide": ["/home"]}}

   Every key of `limits` and `sandbox` may be left out (the defaults of sandbox.Limits and sandbox.Confinement); null
   in `limits` means no limit. Without `uid` the job gets one of its own. `ports` are the TCP ports of 127.0.0.1 that it
   can reach, [] none at all, and `hosts` the others, by the names that this machine resolves; with neither, or null and
   none, it has this machine's network. `hide` is accepted for the reader's sake:
   everything that is not listed is hidden. `sealed` folders are writable, and what is in them at the end is written down
   in the file `seal` before the exit is reported; with `is_shared` a Spark server writes there, too. The folder of the manifest must be in `writable` (mode 0777 when the server
   is root, since the job has another user), `cwd` and the code's folder in `readonly`. A listed path that does not
   exist fails the job with exit code 125 and a line in its log.
2. The server answers ``{"pid": 4711, "sandbox": "full"}``: the process group to signal. Or ``{"error": "..."}`` and
   closes.
3. While it runs the caller may send ``{"kill": "TERM"}`` or ``{"kill": "KILL"}`` any number of times. TERM reaches the
   job only, which may ignore it; KILL ends everything at once. Closing the connection is KILL.
4. When it has ended the server sends ``{"exit": code}`` (0-255, 128+n after signal n, 125 when the sandbox could not be
   made, 122 when it wrote more than `disk_bytes`, 123 when it held more than
   `total_memory_bytes`, and was ended) and closes. By then every process of the job is gone (modes full and user).

``{"op": "status"}`` (no descriptor) answers ``{"pid": n, "sandbox": "full|user|off", "memory": "cgroup v1|cgroup v2|watched",
"ready": true|false, "jobs": n, "protocol": 1, "preloaded": [...]}`` and closes; ``ready`` is false until all libraries are
imported, and ``memory`` says who sees to `total_memory_bytes`: the kernel, or the keeper that adds up the processes.

Requests whose entrypoint needs few libraries go on to a second server, a child that has imported only those (see
light.py): forking it costs a fifth. It speaks with the caller itself, and ends with this one.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import random
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from jobs.channel import NUMBER
from jobs.entrypoints import light, relays, sandbox
from jobs.entrypoints.cgroups import Groups, find_groups
from jobs.entrypoints.keeper import MOST_FILES, hide_memory, list_doors
from jobs.protocol import VERSION

ENTRYPOINTS = frozenset(
    {
        "publish", "run", "upload", "load", "diff", "changelog", "blame", "query", "read", "artifact", "interrupt",
        "sample", "preview", "describe", "tables", "manifests",
    }
)  # fmt: skip
LIGHT_ENTRYPOINTS = frozenset({"manifests"})
"""Those that the small server runs."""
MAX_REQUEST_BYTES = 1024 * 1024
HASH_SEED = "0"
REST_SECONDS = 0.05
"""Between two tries to take a caller for whom no descriptor is free, or to remove the group of processes that are ending."""
# Light libraries first: most jobs are light, and a job that comes early waits only for the next import.
PRELOADED = (
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyiceberg.catalog.rest",
    "pyiceberg.io.pyarrow",
    "pyiceberg.table.update.schema",
    "jobs.entrypoints.publish",
    "jobs.entrypoints.run",
    "jobs.entrypoints.upload",
    "jobs.entrypoints.diff",
    "jobs.entrypoints.blame",
    "jobs.entrypoints.changelog",
    "jobs.entrypoints.query",
    "jobs.entrypoints.tables",
    "jobs.entrypoints.read",
    "jobs.entrypoints.artifact",
    "jobs.entrypoints.interrupt",
    "jobs.entrypoints.sample",
    "jobs.entrypoints.preview",
    "jobs.entrypoints.describe",
    "polars",
    "pandas",
    "duckdb",
    "pyspark.sql.connect.session",
    "pyspark.sql.functions",
    "pyspark.sql.window",
    "jobs.engine.spark.session",
)
REHEARSAL = "jobs.entrypoints.rehearsal"
PRELOADED_LIGHT = ("jobs.entrypoints.manifests",)
REHEARSAL_LIGHT = "jobs.entrypoints.light_rehearsal"


class RequestError(ValueError):
    """A request that cannot be served; the text goes back to the caller."""


def _refuse_start(error: OSError) -> RequestError:
    return RequestError(f"no process can be started: {error.strerror}")


@dataclass(eq=False)
class _CallerConnection:
    """One caller: bytes not yet read as lines, descriptors received, and the job when it runs."""

    socket: socket.socket
    received: bytes = b""
    log: int | None = None
    channel: int | None = None
    pid: int | None = None
    process: int | None = None  # its pidfd

    def let_go(self) -> None:
        """Close the descriptors that were for the job."""
        for descriptor in (self.log, self.channel):
            if descriptor is not None:
                os.close(descriptor)
        self.log = self.channel = None


class ForkServer:
    """The loop: one thread, so that forking is safe."""

    def __init__(
        self,
        source: socket.socket,
        mode: sandbox.Mode,
        groups: Groups | None,
        *,
        libraries: Sequence[str] = PRELOADED,
        rehearsal: str = REHEARSAL,
        relay_starter: relays.RelayStarter | None = None,
        small: light.SmallServer | None = None,
    ) -> None:
        """Prepare to serve.

        Args:
            source: where callers come from: a socket that listens, or one from which a larger server passes them on.
            mode: the confinement.
            groups: where the groups of jobs are made.
            libraries: what is imported ahead.
            rehearsal: the module that then lets them work out what every job would.
            relay_starter: starts the relays of jobs; None where a job forks its own.
            small: the server for the requests that need few libraries; None where this is it.

        """
        self._source = source
        self._mode = mode
        self._groups = groups
        self._has_ending_groups = False
        self._selector = selectors.DefaultSelector()
        self._connections: set[_CallerConnection] = set()
        self._waiting = list(libraries)
        self._rehearsal = rehearsal
        self._preloaded: list[str] = []
        self._relays = relay_starter
        self._small = small
        self._stopping = False

    def serve(self) -> None:
        """Serve until SIGTERM."""
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        self._selector.register(wake_read, selectors.EVENT_READ, None)
        self._selector.register(
            self._source, selectors.EVENT_READ, self._take_over if self._small is None else self._accept
        )
        while not self._stopping:
            events = self._selector.select(self._find_pause())
            for key, _ in events:
                if key.data is not None:
                    key.data()
            if self._has_ending_groups:
                self._remove_groups()
            if not events and self._waiting:
                self._preload_next()
        for connection in list(self._connections):
            self._close(connection)
        if self._small is not None:
            self._small.end()
        if self._groups is not None:
            self._groups.clear()

    def _find_pause(self) -> float | None:
        if self._waiting:
            return 0
        return REST_SECONDS if self._has_ending_groups else None

    def _remove_groups(self) -> None:
        """Remove the groups of jobs that are over; not their keepers do that, which may be killed."""
        if self._groups is not None:
            self._has_ending_groups = self._groups.sweep()

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def _preload_next(self) -> None:
        name = self._waiting.pop(0)
        try:
            importlib.import_module(name)
        except ImportError as error:
            # a part that is not installed costs its own jobs only; they say so when they import it
            sys.stderr.write(f"fork server: cannot preload {name}: {error}\n")
        else:
            self._preloaded.append(name)
        if not self._waiting:
            self._rehearse()
            # a collection in a child would write to, and so copy, every page of the libraries
            gc.collect()
            gc.freeze()

    def _rehearse(self) -> None:
        """Let the libraries work out what every job would; without that jobs are slower, and the same."""
        try:
            importlib.import_module(self._rehearsal).rehearse()
        except Exception as error:  # such as a full disk, or a part that is not installed
            sys.stderr.write(f"fork server: cannot rehearse: {error}\n")

    def _accept(self) -> None:
        try:
            accepted, _ = self._source.accept()
        except BlockingIOError:
            return
        except OSError:
            # No descriptor or memory is free; the caller waits in the queue until a job that ends gives some back.
            time.sleep(REST_SECONDS)
            return
        self._add(_CallerConnection(accepted))

    def _take_over(self) -> None:
        """Serve a caller that the larger server passes on, with all that it has received."""
        try:
            received, descriptors = light.take_over(self._source)
        except BlockingIOError:
            return
        except EOFError:
            self._stopping = True
            return
        if not descriptors:  # there was none free: the caller sees that nobody holds its connection
            return
        caller, log, channel, *_ = *descriptors, None, None
        connection = _CallerConnection(socket.socket(fileno=caller), received, log, channel)
        self._add(connection)
        self._handle_lines(connection)

    def _add(self, connection: _CallerConnection) -> None:
        connection.socket.setblocking(False)
        self._connections.add(connection)
        self._selector.register(connection.socket, selectors.EVENT_READ, lambda: self._receive(connection))

    def _receive(self, connection: _CallerConnection) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(connection.socket, 65536, 4)
        except BlockingIOError:
            return
        except OSError:
            self._close(connection)
            return
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
            if connection.log is None:
                connection.log = descriptor
            elif connection.channel is None:
                connection.channel = descriptor
            else:
                os.close(descriptor)
        connection.received += data
        if not data or len(connection.received) > MAX_REQUEST_BYTES:
            self._close(connection)
            return
        self._handle_lines(connection)

    def _handle_lines(self, connection: _CallerConnection) -> None:
        while b"\n" in connection.received and connection in self._connections:
            line, connection.received = connection.received.split(b"\n", 1)
            self._handle(connection, line)

    def _handle(self, connection: _CallerConnection, line: bytes) -> None:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise RequestError("a request is one JSON object")
            if "kill" in request:
                self._signal(connection, request["kill"])
            elif request.get("op") == "status":
                self._answer(connection, self._status())
                self._close(connection)
            elif not self._is_passed_on(connection, request, line):
                self._start(connection, request)
        except ValueError as error:  # RequestError is one
            self._answer(connection, {"error": str(error)})
            self._close(connection)

    def _status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "sandbox": self._mode,
            "memory": "watched" if self._groups is None else self._groups.name,
            "ready": not self._waiting,
            "jobs": sum(connection.pid is not None for connection in self._connections),
            "protocol": VERSION,
            "preloaded": self._preloaded,
        }

    def _signal(self, connection: _CallerConnection, name: object) -> None:
        numbers = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL}
        if not isinstance(name, str) or name not in numbers:
            raise RequestError(f"cannot send signal {name!r}: TERM and KILL are known")
        self._kill(connection, numbers[name])

    @staticmethod
    def _kill(connection: _CallerConnection, number: signal.Signals) -> None:
        if connection.pid is None:
            return
        try:
            os.killpg(connection.pid, number)
        except ProcessLookupError:  # it has not made its session yet; until it is reaped the number is its own
            os.kill(connection.pid, number)

    def _is_passed_on(self, connection: _CallerConnection, request: Mapping[str, Any], line: bytes) -> bool:
        """Let the small server serve a caller, where it can; return whether it does."""
        if self._small is None or connection.pid is not None or request.get("entrypoint") not in LIGHT_ENTRYPOINTS:
            return False
        descriptors = [number for number in (connection.log, connection.channel) if number is not None]
        received = line + b"\n" + connection.received
        if not self._small.pass_on(received, [connection.socket.fileno(), *descriptors]):
            return False
        self._close(connection)
        return True

    def _start(self, connection: _CallerConnection, request: dict[str, Any]) -> None:
        if connection.pid is not None:
            raise RequestError("this connection has its job already")
        if connection.log is None:
            raise RequestError("the request carried no descriptor for the log")
        order = _Order.read(request)
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            raise _refuse_start(error) from error
        if pid == 0:
            self._become_job(order, connection.log, connection.channel, server)
        connection.pid = pid
        try:
            connection.process = os.pidfd_open(pid)
        except OSError as error:  # closing the connection ends the job
            raise _refuse_start(error) from error
        connection.let_go()
        self._selector.register(connection.process, selectors.EVENT_READ, lambda: self._finish(connection))
        self._answer(connection, {"pid": pid, "sandbox": self._mode})

    def _become_job(self, order: _Order, log: int, channel: int | None, server: int) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            silence = os.open(os.devnull, os.O_RDONLY)
            os.dup2(silence, 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            if channel is not None:
                os.dup2(channel, NUMBER)
            first = NUMBER + (channel is not None)
            if self._relays is not None:
                os.closerange(first, self._relays.fileno())
                first = self._relays.fileno() + 1
            os.closerange(first, MOST_FILES)
            sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
            sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        except OSError:
            os._exit(sandbox.SETUP_FAILED)
        sandbox.confine(
            order.execute,
            order.confinement,
            order.limits,
            mode=self._mode,
            parent=server,
            groups=self._groups,
            relays=self._relays,
        )

    def _finish(self, connection: _CallerConnection) -> None:
        if connection.process is None or connection.pid is None:
            return
        pid, connection.pid = connection.pid, None
        self._forget_process(connection)
        # whatever ran outside a process namespace (mode off) and stayed in the group
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._remove_groups()
        self._answer(connection, {"exit": code if code >= 0 else 128 - code})
        self._close(connection)

    def _forget_process(self, connection: _CallerConnection) -> None:
        if connection.process is not None:
            self._selector.unregister(connection.process)
            os.close(connection.process)
            connection.process = None

    @staticmethod
    def _answer(connection: _CallerConnection, message: Mapping[str, Any]) -> None:
        with suppress(OSError):  # the caller is gone, which the next read of its socket shows
            connection.socket.sendall(json.dumps(message).encode() + b"\n")

    def _close(self, connection: _CallerConnection) -> None:
        """Forget a caller; its job, if it still runs, is killed and reaped."""
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        connection.let_go()
        self._selector.unregister(connection.socket)
        connection.socket.close()
        if connection.pid is not None:
            self._kill(connection, signal.SIGKILL)
            os.waitpid(connection.pid, 0)
            self._forget_process(connection)
            connection.pid = None
            self._remove_groups()


@dataclass(frozen=True)
class _Order:
    """A request that was read and found good."""

    entrypoint: str
    manifest: str
    cwd: str
    env: dict[str, str]
    confinement: sandbox.Confinement
    limits: sandbox.Limits

    @classmethod
    def read(cls, request: Mapping[str, Any]) -> _Order:
        entrypoint, manifest = request.get("entrypoint"), request.get("manifest")
        if entrypoint not in ENTRYPOINTS:
            raise RequestError(f"unknown entrypoint {entrypoint!r}: one of {', '.join(sorted(ENTRYPOINTS))}")
        if not isinstance(manifest, str) or not manifest.startswith("/"):
            raise RequestError("'manifest' must be an absolute path")
        env = request.get("env", {})
        if not isinstance(env, dict) or not all(isinstance(text, str) for pair in env.items() for text in pair):
            raise RequestError("'env' must map names to texts")
        wishes = {name: value for name, value in _object(request, "sandbox").items() if name != "hide"}
        for name in ("readonly", "writable", "layered", "sealed", "hosts"):
            wishes[name] = tuple(wishes.get(name, ()))
        if wishes.get("ports") is not None:
            wishes["ports"] = tuple(wishes["ports"])
        confinement = _fill(sandbox.Confinement, wishes)
        list_doors(confinement.ports or (), confinement.hosts)  # says what is wrong with them before anything starts
        return cls(
            entrypoint=entrypoint,
            manifest=manifest,
            cwd=str(request.get("cwd", "/")),
            env=env,
            confinement=confinement,
            limits=_fill(sandbox.Limits, _object(request, "limits")),
        )

    def execute(self) -> int:
        """Run in the confined process: nothing of this server's is left but the imported libraries."""
        os.environ.clear()
        os.environ.update(self.env)
        os.chdir(self.cwd)
        sys.argv = [f"jobs.entrypoints.{self.entrypoint}", self.manifest]
        random.seed()
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()
        module = importlib.import_module(f"jobs.entrypoints.{self.entrypoint}")
        code: int = module.main(self.manifest)
        return code


def _object(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = request.get(name, {})
    if not isinstance(value, dict):
        raise RequestError(f"{name!r} must be an object")
    return value


def _fill(kind: type[Any], values: Mapping[str, Any]) -> Any:
    unknown = sorted(set(values) - {entry.name for entry in fields(kind)})
    if unknown:
        raise RequestError(f"unknown key {unknown[0]!r}")
    return kind(**values)


def _fix_hash_seed() -> None:
    """Start again with a fixed hash seed: else sets have another order in publication than in a job."""
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - this program itself


def _listen(path: Path) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(0o177)
    listener.bind(str(path))
    os.umask(previous)
    listener.listen(128)
    listener.setblocking(False)
    return listener


def _serve_small(
    source: socket.socket, *, mode: sandbox.Mode, groups: Groups | None, relay_starter: relays.RelayStarter
) -> None:
    """Serve what needs few libraries, until the larger server ends."""
    relay_starter.close()  # it ends when nobody holds it
    ForkServer(source, mode, groups, libraries=PRELOADED_LIGHT, rehearsal=REHEARSAL_LIGHT).serve()


def main(arguments: list[str] | None = None) -> NoReturn:
    """Start the server; see the head of this file."""
    parser = argparse.ArgumentParser(prog="python -m jobs.entrypoints.forkserver")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--mode", choices=("auto", "full", "user", "off"), default="auto")
    options = parser.parse_args(arguments)
    _fix_hash_seed()
    hide_memory()
    mode: sandbox.Mode = sandbox.detect_mode() if options.mode == "auto" else options.mode
    # without a sandbox what is confined sees the groups, and may leave its own
    groups = None if mode == "off" else find_groups()
    starter = relays.begin()
    small = light.begin(partial(_serve_small, mode=mode, groups=groups, relay_starter=starter))
    listener = _listen(options.socket)
    ForkServer(listener, mode, groups, relay_starter=starter, small=small).serve()
    options.socket.unlink(missing_ok=True)
    # no tidying up of the libraries: some complain at length about what they leave behind
    os._exit(0)


if __name__ == "__main__":
    main()
