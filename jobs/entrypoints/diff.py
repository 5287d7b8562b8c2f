"""Compare two ends of a table: a DiffRequest in, an artifact folder and a DiffResult out.

    python -m jobs.entrypoints.diff request.json

The comparison runs in a second thread, so that SIGTERM and the time limit can interrupt a query in the middle. Whatever
happens, the result file says what became of it; without summary.json the folder is no artifact.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.engine.compare.diff import run_diff
from jobs.engine.errors import CancelledError, DiffError, MemoryLimitError, TimeLimitError
from jobs.engine.executors import Executors
from jobs.engine.write.artifact import FIRST, ROWS, SUMMARY
from jobs.protocol import DiffRequest, DiffResult, ProtocolError, read_message, write_message

if TYPE_CHECKING:
    from types import FrameType

    import duckdb

_OK, _FAILED, _BAD_REQUEST = 0, 1, 2
_GRACE_S = 10.0
_TICK_S = 0.1


@dataclass
class DiffRun:
    """One run, its way out, and what it gave."""

    request: DiffRequest
    deadline: float
    connection: duckdb.DuckDBPyConnection | None = None
    stopped: DiffError | None = None
    summary: dict[str, Any] | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)
    executors: Executors = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the connection changes or is interrupted: a closed one must not be."""

    def __post_init__(self) -> None:
        self.executors = Executors(self.request)

    def work(self) -> None:
        """Run to the end; the thread must not die without saying why."""
        try:
            self.summary = run_diff(self.request, on_connect=self._connected, reduce=self.executors)
        except BaseException as error:
            self.error = error
        finally:
            self.executors.close()
            self.done.set()

    def _connected(self, connection: duckdb.DuckDBPyConnection | None) -> None:
        with self.lock:
            self.connection = connection

    def stop(self, reason: DiffError) -> None:
        """Interrupt the query that runs, and the next one if none does."""
        self.stopped = self.stopped or reason
        self.executors.stop()
        with self.lock:
            if self.connection is not None:
                self.connection.interrupt()

    def wait(self) -> DiffResult:
        """Wait for the end, the time limit, or a signal."""
        gave_up_at: float | None = None
        while not self.done.wait(_TICK_S):
            if self.stopped is None and time.monotonic() > self.deadline:
                limit = f"{self.request.time_limit_s:g} s"
                self.stopped = TimeLimitError(f"The comparison took longer than {limit} and was stopped.")
            if self.stopped is not None:
                gave_up_at = gave_up_at or time.monotonic() + _GRACE_S
                self.stop(self.stopped)
                if time.monotonic() > gave_up_at:
                    break
        return self.result()

    def result(self) -> DiffResult:
        if self.stopped is not None:
            return _failed(self.stopped)
        if isinstance(self.error, DiffError):
            return _failed(self.error)
        if isinstance(self.error, MemoryError):
            return _failed(MemoryLimitError("The comparison does not fit into the memory of its process."))
        if self.error is not None or self.summary is None:
            message = f"The comparison failed: {type(self.error).__name__}: {self.error}"
            return DiffResult(status="failed", code="crashed", message=message)
        return DiffResult(status="ok", summary=self.summary)


def _failed(error: DiffError) -> DiffResult:
    return DiffResult(status="failed", code=error.code, message=str(error))  # type: ignore[arg-type]


def main(path: str) -> int:
    """Run the request in the file at `path`; the exit code only says whether there is an artifact."""
    try:
        request = read_message(DiffRequest, path)
    except ProtocolError as error:
        sys.stderr.write(f"{error}\n")
        return _BAD_REQUEST
    comparison = DiffRun(request, deadline=time.monotonic() + request.time_limit_s)

    def cancel(_signal: int, _frame: FrameType | None) -> None:
        comparison.stopped = comparison.stopped or CancelledError("The comparison was cancelled.")

    previous = {number: signal.signal(number, cancel) for number in (signal.SIGTERM, signal.SIGINT)}
    worker = threading.Thread(target=comparison.work, name="comparison", daemon=True)
    try:
        worker.start()
        result = comparison.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if result.status == "failed":
        _remove_artifact(Path(request.folder))
        sys.stderr.write(f"{result.code}: {result.message}\n")
    write_message(request.result_path, result)
    if not comparison.done.is_set():
        # a query that ignores the interrupt must not keep the process alive
        sys.stderr.flush()
        os._exit(_FAILED)
    return _OK if result.status == "ok" else _FAILED


def _remove_artifact(folder: Path) -> None:
    """Remove the artifact of a failed run, which leaves nothing that looks whole."""
    for name in (SUMMARY, ROWS, f".{ROWS}"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / FIRST, ignore_errors=True)


def _command_line() -> int:
    parser = argparse.ArgumentParser(prog="python -m jobs.entrypoints.diff", description=__doc__.splitlines()[0])
    parser.add_argument("request", help="the file with the DiffRequest")
    return main(parser.parse_args().request)


if __name__ == "__main__":
    sys.exit(_command_line())
