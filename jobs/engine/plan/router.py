"""Where rows are compared: in the job's own process, or by Spark once they are too many for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from jobs.protocol import Executor

NAMES = {"embedded": "in this process", "spark": "by Spark"}


@dataclass(frozen=True)
class Decision:
    """Who computes, and why, as people read it."""

    executor: Literal["embedded", "spark"]
    reason: str

    def __str__(self) -> str:
        return f"computed {NAMES[self.executor]} because {self.reason}"


def choose_executor(decoded_bytes: int, *, limit: int, executor: Executor, obstacle: str = "") -> Decision:
    """Choose by the size of the rows once decoded, unless one executor is asked for.

    `obstacle` is why Spark cannot, which decides where Spark would have been chosen.
    """
    size = f"about {say_size(decoded_bytes)} of rows may differ"
    if executor == "embedded":
        return Decision("embedded", f"that executor was asked for; {size}")
    if executor == "auto" and decoded_bytes <= limit:
        return Decision("embedded", f"{size}, no more than the {say_size(limit)} that one process compares")
    if obstacle:
        return Decision("embedded", f"Spark cannot: {obstacle}; {size}")
    if executor == "spark":
        return Decision("spark", f"that executor was asked for; {size}")
    return Decision("spark", f"{size}, more than the {say_size(limit)} that one process compares")


def say_size(number: int) -> str:
    """Write a size in the unit that suits it."""
    size = float(number)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
