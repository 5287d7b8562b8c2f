"""The merge queue of a branch: who is tested on what, who lands, who leaves and why.

Each entry is tested on the commit that the one before it would land as, the first one on the target's head. What lands is
the very commit that was tested, on the very commit that it was tested on. Pure: services look and carry out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from webapp.pulls.rules.datasets import find_downstream, find_upstream
from webapp.pulls.rules.states import QUEUE_IN_LINE, QUEUE_TESTED, PullState, QueueState

QUEUE_PREFIX = "_queue/"
TESTED_AT_ONCE = 4
"""So many are tested at once, each on top of those before it: one that leaves costs the tests of all behind it."""


def queue_branch(repository: str, entry: int, sha: str) -> str:
    """Return the branch that keeps what a test of an entry builds; each commit that is tested has its own."""
    return f"{QUEUE_PREFIX}{repository}/{entry}/{sha[:12]}"


class Fate(Enum):
    """What became of the merge of an entry that is landing."""

    OPEN = "open"
    LANDED = "landed"
    LOST = "lost"


@dataclass(frozen=True)
class Entry:
    """One merge that is asked for, as the rules see it."""

    id: int
    state: QueueState
    base: str = ""
    """The commit on which it was tested; empty before."""
    tested: str = ""
    """The commit that would land; empty where there is none, also because it conflicts with its base."""
    departure: str = ""
    """Why nobody asks for it any more; empty where somebody does."""
    objection: str = ""
    """What speaks against its merge, whatever its test says; empty where nothing does."""
    may_come: bool = False
    """Whether what is objected may mend without another wish to merge: an approval, a build."""
    failure: str = ""
    """Why its test failed."""
    fate: Fate = Fate.OPEN


class Act(Enum):
    """What is to be done to an entry."""

    WITHDRAW = "withdraw"
    EJECT = "eject"
    JOIN = "join"
    TEST = "test"
    RETEST = "retest"
    LAND = "land"
    FINISH = "finish"


@dataclass(frozen=True)
class Step:
    """One act on one entry."""

    act: Act
    entry: int
    on: str = ""
    """The commit on which to test it."""
    reason: str = ""
    """Why it leaves."""


def list_steps(entries: Sequence[Entry], *, head: str) -> list[Step]:
    """Return what is to be done now; nothing, where all that remains is to wait for tests and people.

    Args:
        entries: those that are asked for, in their order.
        head: of the target.

    """
    steps: list[Step] = []
    line: list[Entry] = []
    for entry in entries:
        step = _judge(entry)
        if step is not None:
            steps.append(step)
        elif entry.state in QUEUE_IN_LINE:
            line.append(entry)
    return [*steps, *_advance(line, head)]


def _judge(entry: Entry) -> Step | None:
    """Return what is to be done whatever those before it do."""
    if entry.state == QueueState.LANDING:
        # Nothing but its merge decides any more.
        act = {Fate.LANDED: Act.FINISH, Fate.LOST: Act.RETEST}.get(entry.fate)
        return Step(act, entry.id) if act else None
    if entry.departure:
        return Step(Act.WITHDRAW, entry.id, reason=entry.departure)
    is_waiting = entry.state == QueueState.WAITING
    if entry.objection:
        return None if is_waiting and entry.may_come else Step(Act.EJECT, entry.id, reason=entry.objection)
    return Step(Act.JOIN, entry.id) if is_waiting else None


def _advance(line: Sequence[Entry], head: str) -> list[Step]:
    """Return what is to be done to those in line, each of which stands on the one before it."""
    steps: list[Step] = []
    on = head
    for place, entry in enumerate(line):
        if entry.state == QueueState.QUEUED:
            if on and place < TESTED_AT_ONCE:
                steps.append(Step(Act.TEST, entry.id, on=on))
            break
        if entry.state in QUEUE_TESTED and entry.base != on:
            # What those behind it were tested on will not land either.
            steps += [Step(Act.RETEST, behind.id) for behind in line[place:] if behind.state in QUEUE_TESTED]
            break
        if entry.state == QueueState.RED:
            # One of those before it may be to blame, until they have landed.
            if place == 0:
                steps.append(Step(Act.EJECT, entry.id, reason=entry.failure))
            break
        if entry.state == QueueState.GREEN and place == 0:
            steps.append(Step(Act.LAND, entry.id))
        on = entry.tested
    return steps


def explain_departure(*, state: PullState, target: tuple[str, str], head: tuple[str, str]) -> str:
    """Return why nobody asks for a merge any more; empty where somebody does.

    Args:
        state: of the pull request.
        target: the branch that was asked for, and the one that is now.
        head: the commit that was asked for, and the one that is now.

    """
    if state != PullState.OPEN:
        return f"The pull request is {state}."
    if target[0] != target[1]:
        return f"The target moved from {target[0]} to {target[1]}."
    return f"The head moved from {head[0][:7]} to {head[1][:7]}." if head[0] != head[1] else ""


def explain_lost_rights(user: str, refusal: str) -> str:
    """Return why somebody who asked for a merge may not merge any more: they were refused, or are no longer active."""
    return f"{user}, who asked for it, may no longer merge it: {refusal or 'the account is not active.'}"


def list_tested(
    *,
    rebuilt: Collection[str],
    merged: Mapping[str, str],
    base: Mapping[str, str],
    begin: Mapping[str, str],
    inputs: Mapping[str, Collection[str]],
) -> list[str]:
    """Return the datasets that a test builds: what the merge changes, and what others have changed around that.

    Of what reads it, and of what it reads, those count whose code has moved since the branch left the target: nobody has
    seen them together. Those of them that are built already are fresh and cost nothing.

    Args:
        rebuilt: what is rebuilt when it lands.
        merged: output path → token of its code in what would land.
        base: the same in the commit that it would land on.
        begin: the same where the branch left the target.
        inputs: output path → paths it reads, in what would land.

    """
    changed = {path for path, digest in merged.items() if base.get(path) != digest} | (set(rebuilt) & merged.keys())
    moved = _list_differing(base, begin) & merged.keys()
    tested = changed | (find_downstream(changed, inputs) & moved)
    return sorted(tested | (find_upstream(tested, inputs) & moved))


def _list_differing(left: Mapping[str, str], right: Mapping[str, str]) -> AbstractSet[str]:
    return {path for path in left.keys() | right.keys() if left.get(path) != right.get(path)}
