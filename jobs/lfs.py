"""Git LFS: what it leaves in a repository in place of a large file."""

from __future__ import annotations

from pathlib import Path

_BEGINNINGS = (b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")
_MOST_BYTES = 1024
"""Maximum size of a pointer in bytes, by the specification."""
EXPLANATION = (
    "this is a Git LFS pointer, not the file itself. Run `git lfs pull` to get the file. To keep it in a repository here, "
    "run `git lfs untrack` for its name and commit the file itself"
)


def is_pointer(path: Path) -> bool:
    """Return whether a file is a pointer to one that Git LFS keeps elsewhere."""
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    return len(content) <= _MOST_BYTES and content.startswith(_BEGINNINGS)
