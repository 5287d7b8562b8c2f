"""Processor time of whole trees of processes, those that ended included."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.factories.supervised import list_descendants

PR_SET_CHILD_SUBREAPER = 36
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    """Processor seconds so far: of all processes, and of the long-lived ones by name."""

    total: float
    parts: dict[str, float]

    def since(self, before: Spent) -> Spent:
        """Return what was spent since an earlier measurement."""
        parts = {name: seconds - before.parts.get(name, 0.0) for name, seconds in self.parts.items()}
        return Spent(self.total - before.total, parts)


def adopt_orphans() -> None:
    """Become the parent of processes whose own has died; their time would go to the host's first process otherwise."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def measure(roots: dict[int, str] | None = None) -> Spent:
    """Return what ended children of this process have spent, with some living ones, by name, and all below those.

    A process counts with its parent once that has waited for it, and so with `roots` or here.
    """
    owners: dict[int, str] = {}
    for root, name in (roots or {}).items():
        owners |= {process.pid: name for process in list_descendants(root)} | {root: name}
    owners |= roots or {}
    _reap_orphans()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    parts = defaultdict(float, {"ended orphans": ended.ru_utime + ended.ru_stime})
    for pid, owner in owners.items():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            own, waited = (sum(map(int, fields[start : start + 2])) / TICKS for start in (11, 13))
            parts[owner] += own
            parts[f"ended below {owner}"] += waited
    return Spent(sum(parts.values()), parts)


def _reap_orphans() -> None:
    """Wait for the adopted processes that have ended; each part of an installation is somebody's own to wait for."""
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with contextlib.suppress(OSError, ChildProcessError):
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            if state[0] == "Z" and int(state[2]) != int(child):
                os.waitpid(int(child), os.WNOHANG)
