"""The processes of a part: whether they are stopped, and whether they use the processor."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

STOPPED = "T"
_WORKING = frozenset("RD")
"""States of a process that runs, waits for a processor or waits for a disk."""
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process, as the kernel reports it."""

    pid: int
    state: str
    processor_s: float
    """Processor time that it has used in seconds."""

    @property
    def is_working(self) -> bool:
        """Whether it runs now, or would if the host let it."""
        return self.state in _WORKING


def read_groups(leaders: Collection[int]) -> dict[int, list[ProcessState]]:
    """Return the processes of process groups, by the leader of each group."""
    groups: dict[int, list[ProcessState]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError):  # it has ended
            fields = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
            group = int(fields[2])
            if group in leaders:
                used = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
                groups[group].append(ProcessState(int(name), fields[0], used))
    return groups
