"""Folders that hostile code has filled are measured and removed, however deep they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from webapp.runtime.folders import remove_folder
from webapp.runtime.room import measure_folder

DEPTH = 1_500


def make_deep(folder: Path, *, name: str = "d" * 200) -> None:
    """Fill a folder with others inside each other: deeper than Python recurses, longer than a path may be."""
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(DEPTH):
        os.mkdir(name, dir_fd=descriptor)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


def test_a_deep_folder_is_removed_and_what_its_links_point_to_is_not(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "-folder"
    kept.mkdir()
    (kept / "file").write_text("")
    make_deep(folder)
    (folder / "link").symlink_to(kept, target_is_directory=True)
    remove_folder(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").exists()
    remove_folder(folder)  # which is not there


def test_a_folder_is_measured_although_it_is_deeper_than_a_path_can_name(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    make_deep(folder)
    (folder / "file").write_bytes(b"1" * 100_000)
    try:
        assert measure_folder(folder) >= 100_000
    finally:
        remove_folder(folder)


def test_measuring_follows_no_link_that_takes_the_place_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, large = tmp_path / "own", tmp_path / "large"
    (own / "part").mkdir(parents=True)
    large.mkdir()
    (large / "rows").write_bytes(bytes(8 * 1024 * 1024))

    def swapping(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Any, *arguments: Any, **options: Any) -> Any:
            if not isinstance(path, int) and Path(path).name == "part" and not (tmp_path / "away").exists():
                (own / "part").rename(tmp_path / "away")
                (own / "part").symlink_to(large)
            return call(path, *arguments, **options)

        return wrapped

    for name in ("open", "scandir"):
        monkeypatch.setattr(os, name, swapping(getattr(os, name)))
    assert measure_folder(own) < 1024 * 1024
    assert (tmp_path / "away").exists()
