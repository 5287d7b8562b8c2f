"""Installs the Debian packages that tests need, where this runs as root and they are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from webapp.runtime import java


class Command(BaseCommand):
    """`manage.py install_debian`: the browser with fonts, PostgreSQL, Redis, OpenSSL, a compiler, strace, Java."""

    help = "Install the Debian packages that tests need."
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Find what is missing and install it in one go."""
        missing = _list_missing()
        if not missing:
            return
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            self.stderr.write(f"Some tests need: apt-get install {' '.join(missing)}")
            return
        self.stdout.write(f"Installing Debian packages: {' '.join(missing)}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment, stdout=subprocess.DEVNULL)
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing],
            check=True,
            env=environment,
            stdout=subprocess.DEVNULL,
        )


def _list_missing() -> list[str]:
    missing = []
    if shutil.which("chromium-headless-shell") is None:
        missing.append("chromium-headless-shell")
    if not Path("/usr/share/fonts/truetype/liberation").is_dir():
        missing.append("fonts-liberation")
    if not Path("/usr/share/fonts/truetype/dejavu").is_dir():
        missing.append("fonts-dejavu-core")
    if not list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        missing.append("postgresql")
    if shutil.which("openssl") is None:
        missing.append("openssl")
    if shutil.which("redis-server") is None:
        missing.append("redis-server")
    if shutil.which("cc") is None:
        missing.append("gcc")
        missing.append("libc6-dev")
    if shutil.which("strace") is None:
        missing.append("strace")
    if java.find_java()[0] is None:
        missing.append("openjdk-17-jre-headless")
    return missing
