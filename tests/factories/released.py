"""The last release, as the next one has to live beside it: its commit, its tables and its messages.

`tests/released.json` keeps them, since a clone need not have the history. Who makes a release writes it anew, at the
commit that is released: `python -m tests.factories.released > tests/released.json`.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "released.json"
APPS = ("accounts", "builds", "catalog", "comparisons", "core", "datasets", "pulls", "repositories")


@dataclass(frozen=True)
class Release:
    """What of a release the processes of the next one meet."""

    commit: str
    migrations: dict[str, str]
    """Each app's last one."""
    messages: dict[str, list[str]]
    """Each task's name, with what its messages have to say."""

    @property
    def leaves(self) -> list[tuple[str, str]]:
        """The last migrations, as Django names them."""
        return list(self.migrations.items())

    def has_code(self) -> bool:
        """Whether this clone has the release's code: one without history has not."""
        command = ["git", "cat-file", "-e", f"{self.commit}^{{commit}}"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0

    def export(self, folder: Path) -> None:
        """Write the release's code, with the assets that were made for this one."""
        packed = subprocess.run(["git", "archive", self.commit], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
        for made in ("static/build", "staticfiles"):
            (folder / made).symlink_to(ROOT / made)


@cache
def read_release() -> Release:
    """Return the last release."""
    return Release(**json.loads(KEPT.read_text()))


def describe_messages() -> dict[str, list[str]]:
    """Return what the messages to each of the program's tasks have to say."""
    from webapp.config.celery import app

    app.loader.import_default_modules()
    tasks = {
        name: inspect.signature(task.run) for name, task in sorted(app.tasks.items()) if name.startswith("webapp.")
    }
    return {
        name: [member.name for member in signature.parameters.values() if member.kind is member.KEYWORD_ONLY]
        for name, signature in tasks.items()
    }


def describe_program() -> Release:
    """Return what is checked out, as the release that it becomes."""
    from django.db.migrations.loader import MigrationLoader

    head = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    leaves = MigrationLoader(None).graph.leaf_nodes()
    return Release(commit, {app: name for app, name in sorted(leaves) if app in APPS}, describe_messages())


def _write() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
    import django

    django.setup()
    written: dict[str, Any] = asdict(describe_program())
    sys.stdout.write(json.dumps(written, indent=2) + "\n")


if __name__ == "__main__":
    _write()
