"""Whether a comparison of a pull request has what its target did since the branch left it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.pulls.queries import named
from webapp.pulls.queries import pulls as queries
from webapp.pulls.queries.sides import list_drift
from webapp.pulls.queries.specs import has_taken
from webapp.pulls.rules import states

if TYPE_CHECKING:
    from webapp.pulls.models import PullDataset
    from webapp.pulls.pages.head import Loaded


def judge_part(loaded: Loaded, row: PullDataset, shown: named.Shown) -> str:
    """Return how much of it a comparison has: no, some, backwards, or unbuilt (backwards until the branch is built)."""
    if shown.name == states.TARGET_NOW:
        return "backwards"
    if shown.name == states.CODE_EFFECT and row.after is not None:
        base_code = queries.read_specs(pull=loaded.pull).base_code
        return "unbuilt" if has_taken(loaded.pull, row.path, row.after, base_code) else "no"
    return "some" if shown.name == states.SINCE_REVIEW or shown.note or list_drift_of(loaded, shown) else "no"


def list_drift_of(loaded: Loaded, shown: named.Shown) -> list[str]:
    """Return what else than the code makes a difference to a comparison with the branch."""
    if shown.before is None or shown.after is None or shown.name == states.TARGET_SINCE:
        return []
    paths = queries.read_specs(pull=loaded.pull).made_paths
    return list_drift(shown.before, shown.after, ours=paths.intersection(row.path for row in loaded.rows))
