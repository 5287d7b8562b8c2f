"""What merging does not bring to the target: rows that somebody loaded on the branch, and what only differs for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from webapp.builds.rules.plan import join_words
from webapp.pulls.rules.datasets import find_downstream, find_upstream


@dataclass(frozen=True)
class Branches:
    """What a pull request changes, as far as it decides what lands."""

    target: str
    code: Collection[str]
    """Outputs whose JobSpecs the source adds, changes or removes."""
    inputs: Mapping[str, Collection[str]]
    """Output → paths it reads, at the source's head."""
    loaded: Mapping[str, str]
    """Dataset that was loaded on the source, or on a branch between it and the target → where and by whom.

    Those whose files merging loads on the target are not among them.
    """


def explain_landing(path: str, branches: Branches) -> str:
    """Return why merging does not bring the dataset's rows to the target; empty where it does, by rebuilding them."""
    if path in branches.loaded:
        return _explain_loaded(path, branches)
    above = find_upstream([path], branches.inputs)
    loaded = sorted(above & branches.loaded.keys())
    if not loaded or path in branches.code or above.intersection(branches.code):
        return ""
    read = join_words(f"{source} (loaded {branches.loaded[source]})" for source in loaded)
    return f"Built from {read}, and no code changes for it: {branches.target} keeps its rows."


def explain_refreshed(target: str) -> str:
    """Return why merging does not bring the rows of a dataset that the branch rebuilt without changing it."""
    return (
        f"The branch built it from newer data, but changes neither its code nor anything it is made from. "
        f"Merging leaves it as it is on {target}: build it there."
    )


def _explain_loaded(path: str, branches: Branches) -> str:
    target = branches.target
    what = f"Loaded {branches.loaded[path]}. Data of a branch is never merged: "
    if path in branches.inputs:
        return f"{what}{target} has what the JobSpec makes there."
    readers = sorted(find_downstream([path], branches.inputs) & set(branches.code))
    verb = "is" if len(readers) == 1 else "are"
    rebuilt = (
        f" {join_words(readers)} {verb} made from it on the branch, and on {target} from what is there."
        if readers
        else ""
    )
    return f"{what}{target} stays as it is until this is loaded there too.{rebuilt}"
