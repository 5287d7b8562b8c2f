"""Memory and descriptors of each part, sampled whenever nobody works: flat, or something leaks."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

WARM_UP = 0.2
"""The part of all samples that is not looked at: caches fill, libraries are imported."""
PASSING = ("spark-archive", "spark-warm-up")
"""Parts that prepare Spark and end."""
FEWEST = 9
"""Fewer samples than this say nothing."""


@dataclass(frozen=True)
class Limits:
    """How far the medians of first and last third may be apart."""

    growth: float = 1.3
    mib: float = 40
    descriptors: int = 20
    """Beyond that growth: a pool that opened one more connection is no leak."""


@dataclass(frozen=True)
class Sample:
    """What one part used at one moment, over all its processes."""

    mib: float
    """Memory but for the pages of the database, which grows with what is done and lends them to every connection."""
    descriptors: int
    connections: int
    """Of the descriptors those that are sockets."""


def measure(pids: Iterable[int]) -> Sample:
    """Sum up what processes use that may end at any moment."""
    mib, targets = 0.0, list[str]()
    for pid in pids:
        with suppress(OSError):
            mib += _read_kib(pid) / 1024
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                targets += _read_target(f"/proc/{pid}/fd/{descriptor}")
    return Sample(mib, len(targets), sum(target.startswith("socket:") for target in targets))


def _read_kib(pid: int) -> int:
    """What a process has in memory of its own and of every file but the database."""
    kib, is_counted = 0, True
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, *values = line.split()
        if not name.endswith(":"):
            is_counted = not line.endswith("/db.sqlite3")
        elif name == "Rss:" and is_counted:
            kib += int(values[0])
    return kib


def _read_target(link: str) -> list[str]:
    """What a descriptor stands for; nothing where it was closed meanwhile."""
    with suppress(OSError):
        return [os.readlink(link)]
    return []


@dataclass
class Usage:
    """The samples of every part."""

    limits: Limits = field(default_factory=Limits)
    samples: dict[str, list[Sample]] = field(default_factory=lambda: defaultdict(list))

    def note(self, part: str, pids: Iterable[int]) -> None:
        """Take one more sample of a part."""
        self.samples[part].append(measure(pids))

    def check(self) -> None:
        """Fail where the last third of a part's samples lies above the first third by more than chance explains.

        A part with fewer samples than say anything was not checked, and that fails, too, unless it is soon over."""
        few = {
            part: len(samples)
            for part, samples in self.samples.items()
            if len(samples) < FEWEST and part not in PASSING
        }
        assert self.samples and not few, f"too few samples, {FEWEST} are the fewest that show a leak: {few}"
        leaks = [
            leak for part, samples in sorted(self.samples.items()) for leak in find_leaks(part, samples, self.limits)
        ]
        assert not leaks, "; ".join(leaks)

    def summary(self) -> str:
        """The medians of first and last third, for the log."""
        return "; ".join(
            f"{part}: {early.mib:.0f} to {late.mib:.0f} MiB, {early.descriptors} to {late.descriptors} descriptors, "
            f"{early.connections} to {late.connections} connections"
            for part, samples in sorted(self.samples.items())
            for early, late in [compare_thirds(samples)]
        )


def find_leaks(part: str, samples: Sequence[Sample], limits: Limits) -> list[str]:
    """Say what grew."""
    early, late = compare_thirds(samples)
    leaks = []
    if late.mib > early.mib * limits.growth + limits.mib:
        leaks.append(f"{part} grew from {early.mib:.0f} to {late.mib:.0f} MiB")
    if late.connections > early.connections * limits.growth + limits.descriptors:
        leaks.append(f"{part} grew from {early.connections} to {late.connections} connections")
    if late.descriptors > early.descriptors * limits.growth + limits.descriptors:
        leaks.append(f"{part} grew from {early.descriptors} to {late.descriptors} descriptors")
    return leaks


def compare_thirds(samples: Sequence[Sample]) -> tuple[Sample, Sample]:
    """The medians of the first and of the last third after the warm-up."""
    warm = samples[int(len(samples) * WARM_UP) :]
    third = max(len(warm) // 3, 1)
    return _median(warm[:third]), _median(warm[-third:])


def _median(samples: Sequence[Sample]) -> Sample:
    return Sample(
        statistics.median(sample.mib for sample in samples),
        int(statistics.median(sample.descriptors for sample in samples)),
        int(statistics.median(sample.connections for sample in samples)),
    )
