"""`check_locks` knows every lock file there is."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from webapp.runtime.management.commands.check_locks import LOCKS


def test_every_lock_file_is_checked() -> None:
    assert {path.name for path in Path(settings.BASE_DIR, ".locks").glob("*.txt")} == set(LOCKS)
