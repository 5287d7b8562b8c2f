"""Whatever the history, a merge that is not refused changes only files on its target that the review showed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.factories.crossings import PUSHER, commit
from tests.factories.histories import run_git
from webapp.git import merges
from webapp.git.landing import find_landing
from webapp.git.repository import GitRepository

pytestmark = pytest.mark.integration
FILES = ("pay.txt", "notes.txt")
LINES = "".join(f"line {number}\n" for number in range(9))
TEXTS = (LINES, f"first\n{LINES}", f"{LINES}last\n", f"first\n{LINES}last\n")
_contents = st.fixed_dictionaries({path: st.sampled_from(TEXTS) for path in FILES})
_history = st.fixed_dictionaries(
    {
        "start": _contents,
        "lines": st.lists(_contents, min_size=2, max_size=3),
        "heads": st.tuples(_contents, _contents),
        "later": st.tuples(st.none() | _contents, st.none() | _contents),
        "newest": st.integers(0, 2),
    }
)
"""Lines of work that both heads have joined, each in its own way, and which of them claims the newest date."""


@pytest.mark.parametrize("examples", [10, pytest.param(1_500, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
def test_a_merge_changes_only_what_was_shown(examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(history=_history)
    def law(history: dict[str, Any]) -> None:
        check_history(**history)

    law()


def test_lines_that_cross_do_not_hide_a_change() -> None:
    """The shortest history in which a merge changes a file that the diff from one merge base does not show."""
    good, evil = ({"pay.txt": text, "notes.txt": LINES} for text in TEXTS[:2])
    noted = {"pay.txt": TEXTS[1], "notes.txt": TEXTS[1]}
    unshown = check_history(start=evil, lines=[evil, good], heads=(good, noted), later=(None, None), newest=0)
    assert unshown == {"pay.txt"}


def check_history(
    *,
    start: dict[str, str],
    lines: list[dict[str, str]],
    heads: tuple[dict[str, str], dict[str, str]],
    later: tuple[dict[str, str] | None, dict[str, str] | None],
    newest: int,
) -> frozenset[str]:
    """Merge two heads that have several merge bases, and compare what lands with what is shown."""
    with tempfile.TemporaryDirectory() as name:
        git = GitRepository.init(Path(name) / "a.git", branch="master")
        root = git.create_root_commit(
            branch="master", message="First", files=dict.fromkeys(FILES, LINES.encode()), author=PUSHER
        )
        parted = commit(git, start, parents=(root.sha,))
        joined = tuple(
            commit(git, files, parents=(parted,), time=20 if number == newest else number)
            for number, files in enumerate(lines)
        )
        ends = [commit(git, files, parents=joined, time=30) for files in heads]
        target, source = (
            end if files is None else commit(git, files, parents=(end,), time=40)
            for end, files in zip(ends, later, strict=True)
        )
        return check_landing(git, source=source, target=target)


def check_landing(git: GitRepository, *, source: str, target: str) -> frozenset[str]:
    landing = find_landing(git, source=source, target=target)
    merged = merges.preview_merge(git, source=source, target=target)
    assert bool(landing.conflicts) is not merged.clean
    if not merged.clean:
        return frozenset()
    lands = list_names(git, target, merged.tree)
    assert landing.changed == lands
    base = git.merge_base(target, source) or ""
    if landing.unshown:
        # Once the branch has what its target has, it shows all of it.
        updated = merges.prepare_merge(git, source=target, target=source, method="merge", message="m", author=PUSHER)
        after = find_landing(git, source=updated, target=target)
        assert (after.unshown, after.changed) == (frozenset(), list_names(git, target, updated))
        return landing.unshown
    assert lands <= list_names(git, base, source)
    for path in lands:
        assert read(git, merged.tree, path) == apply(git, path, ours=target, base=base, theirs=source)
    return frozenset()


def apply(git: GitRepository, path: str, *, ours: str, base: str, theirs: str) -> str:
    """Return what Git makes of a file if a change of it is applied to another version."""
    for name, sha in (("ours", ours), ("base", base), ("theirs", theirs)):
        (git.path / name).write_text(read(git, sha, path))
    return run_git(git.path, "merge-file", "-p", "ours", "base", "theirs")


def read(git: GitRepository, tree: str, path: str) -> str:
    return run_git(git.path, "cat-file", "blob", f"{tree}:{path}")


def list_names(git: GitRepository, old: str, new: str) -> frozenset[str]:
    names = run_git(git.path, "diff-tree", "-r", "-z", "--no-renames", "--name-only", old, new)
    return frozenset(filter(None, names.split("\0")))
