"""Whoever's answer changes is out of date: shown by running every transform before and after a change."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.factories import freshness as tree
from tests.factories.code_kinds import KINDS, Kind
from tests.factories.reaching_kinds import REACHING

pytestmark = pytest.mark.slow
TIDY = (("", "# nothing\n"), ("\n\n", "\n\n\n# more room\n"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_stale_when_its_answer_changes(kind: Kind, tmp_path: Path) -> None:
    files = tree.write_repository([kind, KINDS[0]], modules=1)
    before = tree.publish_tree(tmp_path / "before", files)
    again = tree.publish_tree(tmp_path / "deeper" / "again", files)
    assert before.digests == again.digests
    assert tree.list_changed(before, again) == set()
    assert tree.list_stale(before, again) == set()
    for number, (path, old, new) in enumerate(kind.edits):
        place = (path or tree.module_of(0, 1)).replace("{n}", "0")
        changed = tree.edit(files, place, old.replace("{n}", "0"), new.replace("{n}", "0"))
        after = tree.publish_tree(tmp_path / str(number), changed)
        assert tree.list_wrong(before, after) == set(), (place, old, new)


def test_what_code_reaches_without_naming_it_counts(tmp_path: Path) -> None:
    kinds = [KINDS[0], *REACHING]
    files = tree.write_repository(kinds, modules=len(kinds))
    changed = files
    for number, kind in enumerate(kinds[1:], start=1):
        for path, old, new in kind.edits:
            place = (path or tree.module_of(number, len(kinds))).replace("{n}", str(number))
            changed = tree.edit(changed, place, old.replace("{n}", str(number)), new.replace("{n}", str(number)))
    before = tree.publish_tree(tmp_path / "before", files)
    after = tree.publish_tree(tmp_path / "after", changed)
    names = {f"/x/t{number}": kind.name for number, kind in enumerate(kinds)}
    stale = tree.list_stale(before, after)
    assert [names[path] for path in sorted(names.keys() - stale)] == [kinds[0].name]
    assert [names[path] for path in sorted(names.keys() - tree.list_changed(before, after))] == [kinds[0].name]


@st.composite
def repositories(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, str]]:
    """Draw a repository and the same after one change."""
    kinds = draw(st.lists(st.sampled_from([*KINDS, *REACHING]), min_size=2, max_size=4))
    modules = draw(st.integers(1, 2))
    files = tree.write_repository(kinds, modules=modules)
    edits = [
        (
            (path or tree.module_of(number, modules)).replace("{n}", str(number)),
            *(text.replace("{n}", str(number)) for text in texts),
        )
        for number, kind in enumerate(kinds)
        for path, *texts in kind.edits
    ]
    edits += [
        (path, old, new)
        for path, (old, new) in itertools.product(files, TIDY)
        if path.endswith(".py") and old in files[path]
    ]
    edits += [
        ("README.md", "", "words"),
        ("pipelines/module0.py", "", "UNUSED = 1\n"),
        ("pipelines/other.py", "", "X = 1\n"),
    ]
    path, old, new = draw(st.sampled_from(edits))
    return files, tree.edit(files, path, old, new)


def check(example: tuple[dict[str, str], dict[str, str]]) -> None:
    files, changed = example
    with tempfile.TemporaryDirectory() as folder:
        before = tree.publish_tree(Path(folder) / "before", files)
        after = tree.publish_tree(Path(folder) / "after", changed)
        assert tree.list_wrong(before, after) == set()


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(repositories())
def test_whose_answer_changes_is_stale(example: tuple[dict[str, str], dict[str, str]]) -> None:
    check(example)


@pytest.mark.soak
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(repositories())
def test_whose_answer_changes_is_stale_in_a_thousand(example: tuple[dict[str, str], dict[str, str]]) -> None:
    check(example)
