"""What people call the named comparisons of a dataset, why there is none of a name, and what else one shows."""

from __future__ import annotations

from collections.abc import Collection

from webapp.comparisons.rules.dataset_rules import PIPELINE_FILE
from webapp.pulls.rules import states


def explain_refused_rules(*, path: str, named: Collection[str], username: str, act: str) -> str:
    """Return why the review rules of a dataset are refused: they name columns that somebody who made them may not see."""
    columns = ", ".join(named)
    return f"Refused: the rules of {path} in {PIPELINE_FILE} name {columns}, which {username}, who {act}, may not see."


def name_comparison(name: str, *, target: str, is_open: bool = True, reverted: int | None = None) -> str:
    """Return what people call a comparison; those of a closed pull request no longer follow the target."""
    return {
        states.THIS_BRANCH: "this branch",
        states.CODE_EFFECT: "effect of the code",
        states.TARGET_NOW: f"against {target} {'now' if is_open else 'as it was'}",
        states.TARGET_SINCE: f"what {target} did since",
        states.BEFORE_REVERTED: f"against what was before #{reverted}",
        states.SINCE_REVIEW: "since your review",
    }[name]


def explain_absence(name: str, *, source: str, target: str, is_revert: bool) -> str:
    """Return why a dataset has no comparison of this name."""
    if name == states.CODE_EFFECT:
        return f"Nothing has built {target}'s code, as {source} left it, on the inputs of {source}."
    if name == states.TARGET_SINCE:
        return f"{target} has not changed it since {source} left it."
    if name == states.BEFORE_REVERTED:
        return f"{target} had none before." if is_revert else "The pull request reverts no other one."
    if name == states.SINCE_REVIEW:
        return "Its rows are those of your last review, or you gave none of rows."
    return "Not compared yet."


def explain_base(*, source: str, target: str, has_code_effect: bool) -> str:
    """Return what *this branch* shows beside the branch's own work where other code made what the branch stands on."""
    mixed = (
        f"The rows of {target} that {source} stands on were made by other code of {target} than {source} contains: "
        f"what differs by that code is shown here beside what {source} changes."
    )
    absent = (
        f" {target} has no rows that this code made of the same data. Build {target}'s code on the inputs of {source} "
        f"to see the effect of {source} alone."
    )
    return mixed if has_code_effect else mixed + absent
