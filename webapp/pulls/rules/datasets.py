"""Which datasets a pull request changes, from the JobSpecs of both sides and what the branch has built."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from webapp.pulls.rules import states


def classify_datasets(
    *,
    head: Mapping[str, str],
    base: Mapping[str, str],
    built: Collection[str],
    inputs: Mapping[str, Collection[str]],
) -> dict[str, str]:
    """Path → change.

    Args:
        head: output path → digest of its JobSpec at the source's head.
        base: the same where the branch began (its merge base with the target).
        built: paths with a transaction of the branch's own.
        inputs: output path → paths it reads, at the source's head.

    """
    changes = {path: states.ADDED for path in head if path not in base}
    changes |= {path: states.REMOVED for path in base if path not in head}
    changes |= {path: states.MODIFIED for path in head if path in base and head[path] != base[path]}
    for path in find_downstream(changes, inputs):
        changes.setdefault(path, states.AFFECTED)
    for path in built:
        # Data that the branch made by other means than its code, such as an upload, is a change of its own;
        # what was only rebuilt because something upstream changed stays "affected".
        changes.setdefault(path, states.MODIFIED)
    return dict(sorted(changes.items()))


def find_downstream(paths: Collection[str], inputs: Mapping[str, Collection[str]]) -> set[str]:
    """Every output that reads one of the paths, directly or not; the paths themselves only where they do."""
    found: set[str] = set()
    frontier = set(paths)
    while frontier:
        frontier = {output for output, read in inputs.items() if frontier.intersection(read)} - found
        found |= frontier
    return found
