"""Which datasets the graph of a pull request shows, and how each stands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from webapp.builds.rules.states import JOB_ENDS, JobState
from webapp.pulls.rules import states


class NodeBuild(StrEnum):
    """How a dataset of the graph is built on the source branch."""

    CURRENT = "current"
    OUTDATED = "outdated"
    NOT_BUILT = "not_built"
    RUNNING = "running"
    FAILED = "failed"
    LOADED = "loaded"
    REMOVED = "removed"
    OWN_DATA = "own_data"
    UNTOUCHED = "untouched"


@dataclass(frozen=True)
class ChosenNodes:
    """What of a graph is shown."""

    paths: tuple[str, ...]
    hidden: int
    """How many of the rest the reader may not see, as far as anybody has looked."""
    is_cut: bool
    """Whether there is more that they may see."""


def choose_nodes(
    changed: Sequence[str], below: Sequence[str], *, hidden: Collection[str], is_complete: bool, most: int
) -> ChosenNodes:
    """Choose what a graph shows: what is changed, then what is downstream, nearest first.

    Args:
        changed: the datasets of the pull request that the reader may see, the important ones first.
        below: what is made from them, nearest first.
        hidden: which of these the reader may not see.
        is_complete: whether nothing more lies below.
        most: so many are shown.

    """
    visible = list(dict.fromkeys((*changed, *(path for path in below if path not in hidden))))
    return ChosenNodes(
        paths=tuple(visible[:most]),
        hidden=len(set(hidden).intersection(below)),
        is_cut=len(visible) > most or not is_complete,
    )


def judge_build(*, change: str, has_data: bool, is_current: bool, is_rebuilt: bool, job: JobState | None) -> NodeBuild:
    """Return how a dataset of the pull request is built.

    Args:
        change: how it changes.
        has_data: whether the source has data of its own.
        is_current: whether the source's published code made these.
        is_rebuilt: whether the source's code makes it, rather than somebody has loaded it.
        job: what became of it in the newest build of the source; None where that has no job for it.

    """
    if job is not None and job not in JOB_ENDS:
        return NodeBuild.RUNNING
    if job in (JobState.FAILED, JobState.ABORTED):
        return NodeBuild.FAILED
    if change == states.REMOVED:
        return NodeBuild.REMOVED
    if not has_data:
        return NodeBuild.NOT_BUILT
    if change == states.MODIFIED and not is_rebuilt:
        return NodeBuild.LOADED
    return NodeBuild.CURRENT if is_current else NodeBuild.OUTDATED
