"""The installation's key: made once, whole, and never taken from an empty file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from webapp.runtime import handed_over


def test_the_key_that_was_made_first_stays(tmp_path: Path) -> None:
    path = tmp_path / "secret-key"
    key = handed_over.read_or_make_key(path)
    assert len(key) > 50
    assert handed_over.read_or_make_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["secret-key"]


def test_a_full_disk_leaves_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, _text: str) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(handed_over, "write_private", fail)
    with pytest.raises(OSError, match="No space left"):
        handed_over.read_or_make_key(tmp_path / "secret-key")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_key_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "secret-key"
    path.touch()
    with pytest.raises(SystemExit, match="is empty.*backup.*remove the file"):
        handed_over.read_or_make_key(path)
