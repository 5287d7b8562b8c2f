"""Geometry of a build's time line: bars, ticks and the mark of this moment, in the units of its drawing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

LEFT = 190.0
WIDTH = 1024.0
ROW = 28
TOP = 32
LABEL_GAP = 8
INSIDE = 160.0
"""A bar this wide holds its own label."""
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
TICKS = 9


@dataclass(frozen=True, slots=True)
class JobSpan:
    """What one row shows: from when to when; without an end it goes on, without a start it waits."""

    name: str
    kind: str
    text: str
    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """One row of the drawing."""

    name: str
    kind: str
    text: str
    x: float
    y: int
    width: float
    text_x: float
    is_inside: bool

    @property
    def name_y(self) -> int:
        """Base line of the words."""
        return self.y + 13


@dataclass(frozen=True, slots=True)
class TimelineTick:
    """One upright line and its time since the start."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class JobTimeline:
    """The whole drawing."""

    bars: tuple[TimelineBar, ...]
    ticks: tuple[TimelineTick, ...]
    height: int
    now_x: float | None
    start: datetime
    end: datetime

    @property
    def bottom(self) -> int:
        """Where upright lines end."""
        return self.height - 6

    @property
    def description(self) -> str:
        """The drawing in words."""
        return "; ".join(f"{bar.name}: {bar.text}" for bar in self.bars) + "."


def draw(spans: Sequence[JobSpan], *, start: datetime, now: datetime, is_over: bool) -> JobTimeline:
    """Lay the rows out between the start and the end, or now while it runs."""
    ends = [span.end for span in spans if span.end is not None]
    end = max(ends, default=now) if is_over else now
    seconds = max((end - start).total_seconds(), 0.5)
    step = next((size for size in STEPS if seconds / size <= TICKS - 1), STEPS[-1])
    scale = WIDTH / (step * max(1, -(-seconds // step)))

    def place(moment: datetime) -> float:
        return round(LEFT + max(0.0, (moment - start).total_seconds()) * scale, 1)

    bars = tuple(_draw_bar(span, TOP + number * ROW, place(end), place) for number, span in enumerate(spans))
    count = int(WIDTH / (step * scale) + 0.5)
    return JobTimeline(
        bars=bars,
        ticks=tuple(
            TimelineTick(round(LEFT + tick * step * scale, 1), format_offset(tick * step)) for tick in range(count + 1)
        ),
        height=TOP + len(spans) * ROW,
        now_x=None if is_over else place(now),
        start=start,
        end=end,
    )


def _draw_bar(span: JobSpan, y: int, now_x: float, place: Callable[[datetime], float]) -> TimelineBar:
    x = now_x if span.start is None else place(span.start)
    width = 85.0 if span.start is None else max(3.0, (now_x if span.end is None else place(span.end)) - x)
    is_inside = width > INSIDE and span.start is not None
    text_x = x + 10 if is_inside else x + width + LABEL_GAP
    return TimelineBar(span.name, span.kind, span.text, x, y, round(width, 1), round(text_x, 1), is_inside)


def format_offset(seconds: float) -> str:
    """Return 0:15, 12:00 or 1:30:00."""
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}"
