"""The digest moves exactly when what is computed may have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.factories.jobs import HEAD, publish_files

pytestmark = pytest.mark.slow
SHARED = """
FACTOR = 3

def scale(x):
    return x * FACTOR

def unrelated(x):
    return x
"""
MODULE = (
    HEAD
    + """
from pipelines.shared import scale
import pipelines.constants as c

LIMIT = 5

def helper(x):
    return scale(x) + LIMIT

def other():
    return 1

@transform.using(out=TableOutput("/x/a"))
def first(out):
    out.write_table(helper(c.SEED))

@transform.using(out=TableOutput("/x/b"))
def second(out):
    out.write_table(other())
"""
)
FILES = {
    "pipelines/__init__.py": "",
    "pipelines/module.py": MODULE,
    "pipelines/shared.py": SHARED,
    "pipelines/constants.py": "SEED = 1\n",
}


def digests(folder: Path, files: dict[str, str]) -> dict[str, str]:
    result = publish_files(folder, files)
    assert result.errors == ()
    return {spec.function.rpartition(":")[2]: spec.digest for spec in result.jobspecs}


def changed(tmp_path: Path, file: str, old: str, new: str) -> set[str]:
    before = digests(tmp_path / "a", FILES)
    assert old in FILES[file]
    after = digests(tmp_path / "b", FILES | {file: FILES[file].replace(old, new)})
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("pipelines/module.py", "LIMIT = 5", "LIMIT = (\n    5  # the same\n)"),
        ("pipelines/module.py", "def helper(x):\n", 'def helper(x):\n    """Say what it does."""\n'),
        ("pipelines/module.py", "def other", "UNUSED = 1\n\ndef other"),
        ("pipelines/module.py", "from pipelines.shared import scale\n", "\n\n\nfrom pipelines.shared import scale\n"),
        ("pipelines/shared.py", "def unrelated(x):\n    return x", "def unrelated(x):\n    return -x"),
        ("pipelines/module.py", "def other", "def third(out):\n    pass\n\ndef other"),
    ],
)
def test_what_does_not_compute_changes_nothing(tmp_path: Path, file: str, old: str, new: str) -> None:
    assert changed(tmp_path, file, old, new) == set()


@pytest.mark.parametrize(
    ("file", "old", "new", "names"),
    [
        ("pipelines/module.py", "helper(c.SEED)", "helper(c.SEED + 1)", {"first"}),
        ("pipelines/module.py", "LIMIT = 5", "LIMIT = 6", {"first"}),
        ("pipelines/module.py", "return 1\n", "return 2\n", {"second"}),
        ("pipelines/module.py", '"/x/b"', '"/x/c"', {"second"}),
        ("pipelines/module.py", "scale(x) + LIMIT", "scale(x) - LIMIT", {"first"}),
        # both transforms load what their module imports, and a helper that is used may have any effect
        ("pipelines/shared.py", "FACTOR = 3", "FACTOR = 4", {"first"}),
        ("pipelines/shared.py", "x * FACTOR", "x / FACTOR", {"first"}),
        ("pipelines/constants.py", "SEED = 1", "SEED = 2", {"first"}),
        ("pipelines/module.py", "LIMIT = 5", "LIMIT = 5\nprint('at import')", {"first", "second"}),
        ("pipelines/__init__.py", "", "import os\nos.environ['A'] = 'b'\n", {"first", "second"}),
        (
            "pipelines/module.py",
            '@transform.using(out=TableOutput("/x/b"',
            "@configure('large')\n@transform.using(out=TableOutput(\"/x/b\"",
            {"second"},
        ),
        ("pipelines/module.py", "LIMIT = 5", "LIMIT = 5\nif True:\n    LIMIT = 6", {"first", "second"}),
        ("pipelines/shared.py", "FACTOR = 3", "FACTOR = 3\nfrom pipelines.constants import *", {"first", "second"}),
    ],
)
def test_what_computes_changes_what_uses_it(tmp_path: Path, file: str, old: str, new: str, names: set[str]) -> None:
    assert changed(tmp_path, file, old, new) == names


def test_values_of_a_closure_count(tmp_path: Path) -> None:
    source = (
        HEAD
        + """
def make(factor):
    @transform.using(out=TableOutput("/x/a"))
    def compute(out):
        print(factor)
    return compute

MADE = make(1)
"""
    )
    before = digests(tmp_path / "a", {"pipelines/a.py": source})
    after = digests(tmp_path / "b", {"pipelines/a.py": source.replace("make(1)", "make(2)")})
    assert before != after


def test_moving_the_repository_changes_nothing(tmp_path: Path) -> None:
    assert digests(tmp_path / "a", FILES) == digests(tmp_path / "deeper" / "b", FILES)
