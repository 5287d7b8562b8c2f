"""Which datasets a pull request changes, from the JobSpecs of both sides and what the branch has built."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from webapp.pulls.rules import states


def classify_datasets(
    *,
    head: Mapping[str, str],
    base: Mapping[str, str],
    built: Collection[str],
    inputs: Mapping[str, Collection[str]],
    loaded: Collection[str] = (),
    refreshed: Collection[str] = (),
) -> dict[str, str]:
    """Return how each dataset changes, by path.

    Args:
        head: output path → token of its code at the source's head.
        base: the same where the branch began (its merge base with the target).
        built: paths with a transaction of the branch's own.
        inputs: output path → paths it reads, at the source's head.
        loaded: which of the built ones somebody loaded, and no job made.
        refreshed: which of them only the target's code made, of the target's data.

    """
    changes = {path: states.ADDED for path in head if path not in base}
    changes |= {path: states.REMOVED for path in base if path not in head}
    changes |= {path: states.MODIFIED for path in head if path in base and head[path] != base[path]}
    for path in find_downstream(changes, inputs):
        changes.setdefault(path, states.AFFECTED)
    carried = find_downstream(loaded, inputs) - set(loaded)
    for path in built:
        # Data that the branch made by other means than its code, such as an upload, is a change of its own;
        # what was only rebuilt because something upstream changed stays "affected".
        own = states.AFFECTED if path in carried else states.MODIFIED
        changes.setdefault(path, states.REFRESHED if path in refreshed else own)
    return dict(sorted(changes.items()))


def find_needed(changes: Mapping[str, str], inputs: Mapping[str, Collection[str]]) -> set[str]:
    """Find the refreshed datasets that a changed one is made of: merging rebuilds them too, or it lands other rows."""
    changed = {path for path, change in changes.items() if change in (states.MODIFIED, states.ADDED)}
    return {path for path in find_upstream(changed, inputs) if changes.get(path) == states.REFRESHED}


def find_upstream(paths: Iterable[str], inputs: Mapping[str, Iterable[str]]) -> set[str]:
    """Find every dataset that one of the paths is made of, directly or not; `inputs` are output path → paths it reads."""
    return _reach(paths, inputs)


def find_downstream(paths: Iterable[str], inputs: Mapping[str, Iterable[str]]) -> set[str]:
    """Find every output that reads one of the paths, directly or not; the paths themselves only where they do."""
    readers: dict[str, list[str]] = {}
    for output, read in inputs.items():
        for path in read:
            readers.setdefault(path, []).append(output)
    return _reach(paths, readers)


def _reach(start: Iterable[str], neighbours: Mapping[str, Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(start)
    while waiting:
        new = set(neighbours.get(waiting.pop(), ())) - reached
        reached |= new
        waiting += new
    return reached
