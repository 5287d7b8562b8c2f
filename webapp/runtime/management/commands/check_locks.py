"""Says whether the lock files are what the declared dependencies resolve to under the locked versions."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

OPTIONS = ("--generate-hashes", "--universal", "--no-emit-index-url", "--no-header")
LOCKS = {
    "requirements.txt": ("pyproject.toml",),
    "requirements-dev.txt": ("pyproject.toml", "--group", "dev"),
    **{f"{group}.txt": ("--group", group) for group in ("bootstrap", "java", "node", "clients", "peers")},
}


class Command(BaseCommand):
    """`manage.py check_locks`: changes nothing."""

    help = "Compare the lock files with pyproject.toml."
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Compile again from the committed lock and compare."""
        base = Path(settings.BASE_DIR)
        for name, source in LOCKS.items():
            committed = (base / ".locks" / name).read_text()
            with tempfile.TemporaryDirectory() as folder:
                # Starting from the committed file keeps its versions: newer releases are no reason to fail.
                output = Path(folder) / name
                output.write_text(committed)
                uv = Path(sys.prefix) / "bin" / "uv"
                subprocess.run([uv, "pip", "compile", "-q", *OPTIONS, *source, "-o", output], cwd=base, check=True)
                if _pins(output.read_text()) != _pins(committed):
                    msg = f".locks/{name} does not fit pyproject.toml: run `make lock`."
                    raise CommandError(msg)


def _pins(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
