"""Files that are written whole or not at all leave nothing behind on a disk that is full."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.engine.write.artifact import write_json
from jobs.protocol import Progress, write_message
from jobs.whole_files import whole_file, write_whole
from tests.factories.disks import filled, small_disk
from webapp.accounts.services.people import keep_password
from webapp.git.identity import advance_identity


def test_write_whole_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "one", mode=0o600, is_durable=True)
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_failed_block_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, "one")
    with pytest.raises(KeyError), whole_file(path) as partial:
        partial.write_text("tw")
        raise KeyError
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_leaves_no_files(tmp_path: Path, settings: object) -> None:
    with small_disk(tmp_path) as folder:
        settings.TRIBUTARY_HOME = folder  # type: ignore[attr-defined]
        write_whole(folder / "kept", "one")
        with filled(folder):
            before = sorted(folder.iterdir())
            for _ in range(20):
                for write in (
                    lambda: write_whole(folder / "kept", "x" * 100_000),
                    lambda: write_whole(folder / "kept", "x" * 100_000, is_durable=True),
                    lambda: write_json(folder / "summary.json", {"a": "x" * 100_000}),
                    lambda: write_message(folder / "progress.json", Progress(done=1, total=2, unit="rows")),
                    lambda: keep_password("admin-password", lines=["x" * 100_000]),
                    lambda: advance_identity(folder, uid="x" * 100_000, at_least=1),
                ):
                    with pytest.raises(OSError, match="No space left"):
                        write()
            assert sorted(folder.iterdir()) == before
        assert (folder / "kept").read_text() == "one"
        write_json(folder / "summary.json", {})
        assert json.loads((folder / "summary.json").read_text()) == {}
