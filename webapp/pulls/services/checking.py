"""Whether what merges landed is what Git merges by itself."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from webapp.core import clock
from webapp.core.fsck import Finding, Note, look_apart
from webapp.git import merges
from webapp.git.errors import GitError
from webapp.pulls.models import Merge
from webapp.pulls.rules.states import MERGE_GOES_ON, MERGE_HAS_LANDED, MergeState
from webapp.pulls.services.merging import resume_merge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webapp.git.repository import GitRepository

LATE = timedelta(seconds=60)
RESTORE = "Bring the repository back from a backup, or merge the pull request's commits again by hand."


def check_merges() -> Iterator[Finding | Note]:
    """Find merges that stopped half way, and landed ones whose tree is not that of an independent merge."""
    merges = Merge.objects.exclude(state=MergeState.ABANDONED).select_related("pull__repository").order_by("pk")
    yield from look_apart(merges, _check_merge)
    yield Note(what="merges", count=merges.count())


def _check_merge(merge: Merge) -> Iterator[Finding]:
    about = f"{merge.pull.repository.name}#{merge.pull.number}"
    if merge.state in MERGE_GOES_ON and merge.created_at < clock.now() - LATE:
        yield Finding(
            code="merge_stuck",
            object=about,
            problem=f"It is {merge.state} since {merge.created_at:%Y-%m-%d %H:%M}.",
            way_out="The sweeper carries it on within seconds: look whether it runs.",
            repair=partial(resume_merge, merge_id=merge.pk),
        )
    try:
        git = merge.pull.repository.git
        problem = _find_problem(merge, git)
    except GitError as error:
        problem = str(error)
    if problem:
        yield Finding(code="merge_differs", object=about, problem=problem, way_out=RESTORE)


def _find_problem(merge: Merge, git: GitRepository) -> str:
    """Compare a merge with what `git merge-tree` makes of its two commits now."""
    if not git.has_commit(merge.merge_commit):
        return f"Git does not have its merge commit {merge.merge_commit[:7]}."
    if merge.state not in MERGE_HAS_LANDED:
        return ""
    landed = git.get_commit(merge.merge_commit)
    expected = merges.preview_merge(git, source=merge.source_sha, target=merge.target_sha)
    if not expected.clean or landed.tree != expected.tree:
        return f"The tree of {merge.merge_commit[:7]} is not the merge of {merge.source_sha[:7]} into {merge.target_sha[:7]}."
    head = git.find_head(merge.landing_branch)
    if head is not None and not git.is_ancestor(merge.merge_commit, head):
        return f"It counts as merged, and {merge.landing_branch} does not have its commit {merge.merge_commit[:7]}."
    return ""
