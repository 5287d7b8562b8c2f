"""What strace does to processes that run: kills one at its N-th system call that writes, or writes down what they start and open."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.factories.builds import wait_until

WRITES = "fsync,fdatasync,pwrite64,write,rename,renameat,renameat2,link,linkat,unlink,unlinkat,ftruncate,mkdir"


@contextlib.contextmanager
def killing_at(pids: Sequence[int], number: int, *, calls: str = WRITES) -> Iterator[None]:
    """Within the block each of the processes is killed when a thread of it comes to its N-th such call."""
    inject = f"inject={calls}:signal=SIGKILL:when={number}"
    with _attached(pids, "-o", "/dev/null", "-e", f"trace={calls}", "-e", inject):
        yield


@contextlib.contextmanager
def noting(pids: Sequence[int], path: Path, *, calls: str) -> Iterator[None]:
    """Within the block such calls of the processes, and of all that they start, are written into a file, a line each."""
    with _attached(pids, "-o", str(path), "-s", "4096", "-e", f"trace={calls}"):
        yield


@contextlib.contextmanager
def _attached(pids: Sequence[int], *options: str) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "strace"
        attached = [word for pid in pids for word in ("-p", str(pid))]
        command = ["strace", "-f", *attached, *options]
        with output.open("wb") as log:
            tracer = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until(
                lambda: output.read_bytes().count(b" attached") >= len(pids) or tracer.poll() is not None, seconds=20
            )
            assert tracer.poll() is None, output.read_text()
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                tracer.wait(10)
            tracer.kill()
