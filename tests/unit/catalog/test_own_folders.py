"""The folders that a job writes in a table are folders, whatever was put in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from webapp.catalog.storage.local_files import OWN_MODE, make_own_folders
from webapp.core.errors import Unavailable


def test_a_link_in_place_of_a_jobs_folder_opens_nothing(tmp_path: Path) -> None:
    table, victim = tmp_path / "table", tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (table / "data").mkdir(parents=True)
    link = table / "data" / "job-1-1"
    link.symlink_to(victim, target_is_directory=True)
    with pytest.raises(Unavailable, match="cannot be written"):
        make_own_folders(f"file://{table}", "job-1-1")
    assert victim.stat().st_mode & 0o777 == 0o700
    link.unlink()
    for _ in range(2):  # the second time they are there
        folders = make_own_folders(f"file://{table}", "job-1-1")
        assert [folder.stat().st_mode & 0o777 for folder in folders] == [OWN_MODE, OWN_MODE]
