"""Jars from Maven, pinned in a list beside their digests, for tests and benchmarks that run other people's Java."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

_DEPENDENCY = """
    <dependency>
      <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{classifier}
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>"""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>kit</groupId><artifactId>kit</artifactId><version>1</version>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""


class NoJars(Exception):
    """The jars are not here and cannot be had; says why."""


def read_pairs(path: Path, separator: str = " ") -> dict[str, str]:
    """The lines of a file as pairs, without its comments."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {first: rest.strip() for first, _, rest in (line.partition(separator) for line in lines)}


def get_jars(pinned: dict[str, str], folder: Path) -> list[Path]:
    """The jars of these coordinates (group:artifact:version[:classifier]), fetched once and checked by SHA-256.

    Raises:
        NoJars: they are not here, and Maven or its registry is not within reach.

    """
    paths = [folder / _name_of(coordinates) for coordinates in pinned]
    if not all(path.exists() for path in paths):
        if shutil.which("mvn") is None:
            message = "its jars come from Maven, which is not here"
            raise NoJars(message)
        _fetch(pinned, folder)
        if not all(path.exists() for path in paths):
            message = "Maven reached no registry that has its jars"
            raise NoJars(message)
    wrong = [path.name for path, wanted in zip(paths, pinned.values(), strict=True) if _digest(path) != wanted]
    assert wrong == [], f"not the files that were tested (their SHA-256 differs): {wrong}"
    return paths


def _name_of(coordinates: str) -> str:
    """`core-1.0-tests.jar` of `org:core:1.0:tests`."""
    return "-".join(coordinates.split(":")[1:]) + ".jar"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(pinned: dict[str, str], folder: Path) -> None:
    """Have Maven copy the jars into a folder."""
    dependencies = []
    for coordinates in pinned:
        group, artifact, version, *more = coordinates.split(":")
        classifier = f"<classifier>{more[0]}</classifier>" if more else ""
        dependencies.append(_DEPENDENCY.format(group=group, artifact=artifact, version=version, classifier=classifier))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM.format(dependencies="".join(dependencies)))
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies"]
    subprocess.run([*command, f"-DoutputDirectory={folder}"], cwd=folder, check=False, timeout=600)
