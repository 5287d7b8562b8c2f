"""Log files of jobs: one writer at a time, any number of readers, each line readable as soon as it is written."""

from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from threading import Lock

from webapp.core import clock
from webapp.core.failures import FULL
from webapp.dispatch import log_lines
from webapp.dispatch.log_lines import LogEnd, LogLine


class LogWriter:
    """Appends lines, unbuffered; past the file's limit the rest is dropped and one line says so."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = path.open("ab", buffering=0)
        self._written = self._file.tell()
        self._lock = Lock()
        self._is_torn = False
        """Whether the last line lacks its end: the disk filled up in it."""

    def write(self, text: str, *, is_runner: bool = False) -> None:
        """Append one line."""
        with self._lock:
            if self._written > log_lines.MAX_FILE_BYTES and not is_runner:
                return
            self._append(log_lines.format_line(text, at=clock.now(), is_runner=is_runner))
            if self._written > log_lines.MAX_FILE_BYTES and not is_runner:
                self._append(
                    log_lines.format_line(
                        "log is full, later lines are dropped",
                        at=clock.now(),
                        is_runner=True,
                    )
                )

    def end(self, reason: str, code: int) -> None:
        """Append the closing line; readers stop there."""
        with self._lock:
            self._append(log_lines.format_end(reason, code))

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _append(self, line: bytes) -> None:
        """Write one line; a full disk costs the line, not the job."""
        try:
            data = b"\n" + line if self._is_torn else line
            written = self._file.write(data) or 0
        except OSError as error:
            if error.errno not in FULL:
                raise
            return
        self._is_torn = written < len(data)
        self._written += written


class LogReader:
    """Reads a log from an offset on, again and again; a line without its end yet is left for later."""

    def __init__(self, path: Path, *, offset: int = 0) -> None:
        self._path = path
        self._file: BufferedReader | None = None
        self._offset = offset
        self._n = 0
        self.ended: LogEnd | None = None

    def read(self, *, limit: int = 1000) -> list[LogLine]:
        """Return the next whole lines."""
        if self._file is None and not self._open():
            return []
        lines: list[LogLine] = []
        while len(lines) < limit and self.ended is None and (line := self._next()):
            lines.append(line)
        return lines

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.close()

    def _open(self) -> bool:
        """Open the file, count the lines before the offset, and step back to a line's start if it lies inside one."""
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            return False
        target, self._offset = self._offset, 0
        while self._offset < target and (raw := self._file.readline()).endswith(b"\n"):
            if self._offset + len(raw) > target:
                break
            self._offset += len(raw)
            self._n += 1
        self._file.seek(self._offset)
        return True

    def _next(self) -> LogLine | None:
        if self._file is None:
            return None
        raw = self._file.readline()
        if not raw.endswith(b"\n"):
            self._file.seek(self._offset)
            return None
        self._offset += len(raw)
        self._n += 1
        parsed = log_lines.parse_line(raw, n=self._n, end=self._offset)
        if isinstance(parsed, LogEnd):
            self.ended = parsed
            return None
        return parsed


def read_lines(path: Path, *, after: int = 0, limit: int = 1000) -> tuple[list[LogLine], LogEnd | None]:
    """Return up to `limit` lines after line number `after`, and the end when it was reached."""
    reader = LogReader(path)
    try:
        lines: list[LogLine] = []
        for line in _iterate(reader):
            if line.n <= after:
                continue
            if len(lines) == limit:
                return lines, None
            lines.append(line)
        return lines, reader.ended
    finally:
        reader.close()


def _iterate(reader: LogReader) -> Iterator[LogLine]:
    while lines := reader.read():
        yield from lines
