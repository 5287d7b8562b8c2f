"""Folders in which the hooks of pushes reach the web process, and what is left of those whose process was killed."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from webapp.git import http_backend


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The machine's folder for temporary files; its path is short enough for names of sockets."""
    with tempfile.TemporaryDirectory(prefix="pushes") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_folders_of_pushes_whose_process_was_killed_are_removed(folders: Path) -> None:
    for name in ("tributary-push-dead", "tributary-push-alive", "tributary-push-begins", "tributary-pushed"):
        (folders / name).mkdir()
    sockets = []
    for name in ("dead", "alive"):
        sockets.append(socket.socket(socket.AF_UNIX))
        sockets[-1].bind(str(folders / f"tributary-push-{name}" / "hook"))
        sockets[-1].listen()
    sockets[0].close()
    http_backend.remove_dead_folders()
    assert sorted(path.name for path in folders.iterdir()) == [
        "tributary-push-alive",
        "tributary-push-begins",
        "tributary-pushed",
    ]
    sockets[1].close()
