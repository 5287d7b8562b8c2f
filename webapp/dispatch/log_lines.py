"""The lines of a job's log: how they are written and read back.

``14:02:42.018 text`` is a line of the job, ``14:02:42.018#text`` one of the runner; the last line of a finished log is
``__END__ reason rc=N``. A job cannot forge the other two: each of its lines gets a time and a space in front.
"""

import re
from dataclasses import dataclass
from datetime import datetime

MAX_LINE_BYTES = 16 * 1024
MAX_FILE_BYTES = 50 * 1024 * 1024
CUT = " … line cut"
END = "__END__"
_LINE = re.compile(r"(\d\d:\d\d:\d\d\.\d{3})([ #])(.*)", re.DOTALL)
_END = re.compile(rf"{END} (\w+) rc=(-?\d+)")
_ERROR = re.compile(
    r"(?:^|\s)(?:\w*Error|\w*Exception|ERROR|FATAL|CRITICAL|error)(?::|$|\s\[)|^Traceback \(|\bfailed\b(?!,)", re.ASCII
)
_WARNING = re.compile(r"(?:^|\s)(?:\w*Warning|WARN|WARNING|warning)\b", re.ASCII)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line as pages and the API show it; `n` counts from 1, `end` is the byte offset after it."""

    n: int
    t: str
    stream: str
    text: str
    end: int

    @property
    def level(self) -> str:
        """`error`, `warning` or nothing: a reading aid, not a verdict."""
        if _ERROR.search(self.text):
            return "error"
        return "warning" if _WARNING.search(self.text) else ""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The closing line."""

    reason: str
    code: int


@dataclass(frozen=True, slots=True)
class LogPart:
    """Lines of a log after line `after`, and its end when that is reached."""

    lines: tuple[LogLine, ...]
    end: LogEnd | None
    after: int = 0

    @property
    def next(self) -> int:
        """The number of the last line that was read."""
        return self.lines[-1].n if self.lines else self.after

    @property
    def is_done(self) -> bool:
        """Whether nothing follows."""
        return self.end is not None


def format_line(text: str, *, at: datetime, is_runner: bool = False) -> bytes:
    """Return the bytes of one line, cut at its limit, line breaks inside it made harmless."""
    head = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}{'#' if is_runner else ' '}"
    body = text.replace("\n", " ").replace("\r", " ").encode("utf-8", "replace")
    if len(body) > MAX_LINE_BYTES:
        body = body[:MAX_LINE_BYTES].decode("utf-8", "ignore").encode() + CUT.encode()
    return head.encode() + body + b"\n"


def format_end(reason: str, code: int) -> bytes:
    """Return the bytes of the closing line."""
    return f"{END} {reason} rc={code}\n".encode()


def parse_line(raw: bytes, *, n: int, end: int) -> LogLine | LogEnd:
    """Read one line back; what does not look like one (a damaged file) is shown as it is."""
    text = raw.decode("utf-8", "replace").rstrip("\n")
    if match := _END.fullmatch(text):
        return LogEnd(match[1], int(match[2]))
    if match := _LINE.fullmatch(text):
        return LogLine(
            n=n,
            t=match[1],
            stream="runner" if match[2] == "#" else "job",
            text=match[3],
            end=end,
        )
    return LogLine(n=n, t="", stream="job", text=text, end=end)
