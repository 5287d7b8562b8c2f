"""Apache Iceberg's own REST Compatibility Kit, its catalog and view suites, against a server of this code.

The jars come from Maven, once, checked against their digests; Spark's own jars are the rest of the class path.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pyspark
import pytest

from tests.contract.catalog.conftest import ROOT, Server, start_server
from webapp.core.java import find_java

pytestmark = [pytest.mark.contract, pytest.mark.timeout(900)]
KIT = Path(__file__).with_name("kit")
JARS = ROOT / ".venv" / "jars" / "kit"
SUITES = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")
PASSING = 125
"""Fewer names of passing tests mean that the kit has not run as it should: it has 141, ten of them for other kinds of catalog."""
OPTIONS = {
    "rck.local": "false",
    "rck.requires-namespace-create": "true",
    "rck.supports-names-with-dot": "true",
}
DEPENDENCY = """
    <dependency>
      <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{classifier}
    </dependency>"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>kit</groupId><artifactId>kit</artifactId><version>1</version>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""


def listed(name: str, separator: str) -> dict[str, str]:
    """The lines of a file of the kit as pairs."""
    lines = [line for line in (KIT / name).read_text().splitlines() if line and not line.startswith("#")]
    return {first: rest.strip() for first, _, rest in (line.partition(separator) for line in lines)}


def jar_name(coordinates: str) -> str:
    """`core-1.0-tests.jar` of `org:core:1.0:tests`."""
    return "-".join(coordinates.split(":")[1:]) + ".jar"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch(pinned: dict[str, str], folder: Path) -> None:
    """Have Maven copy the jars into a folder."""
    dependencies = []
    for coordinates in pinned:
        group, artifact, version, *more = coordinates.split(":")
        classifier = f"<classifier>{more[0]}</classifier>" if more else ""
        dependencies.append(DEPENDENCY.format(group=group, artifact=artifact, version=version, classifier=classifier))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(POM.format(dependencies="".join(dependencies)))
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DexcludeTransitive=true"]
    subprocess.run([*command, f"-DoutputDirectory={folder}"], cwd=folder, check=False, timeout=600)


@pytest.fixture(scope="module")
def jars() -> list[Path]:
    """The kit's jars; skips only where neither they nor Maven or its registry are at hand."""
    pinned = listed("jars.txt", " ")
    paths = [JARS / jar_name(coordinates) for coordinates in pinned]
    if not all(path.exists() for path in paths):
        if shutil.which("mvn") is None:
            pytest.skip("the kit's jars come from Maven, which is not here")
        fetch(pinned, JARS)
        if not all(path.exists() for path in paths):
            pytest.skip("Maven reached no registry that has the kit's jars")
    assert [path.name for path, wanted in zip(paths, pinned.values(), strict=True) if digest(path) != wanted] == []
    return paths


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for the kit, which expects to find nothing."""
    running = start_server(tmp_path_factory.mktemp("kit"))
    yield running
    running.process.terminate()
    running.process.wait(20)


def test_the_kit_passes_but_for_what_is_listed(jars: list[Path], alone: Server, tmp_path: Path) -> None:
    java, looked_at = find_java()
    if java is None:
        pytest.skip(f"Java is not here, found {looked_at}")
    path = [*(str(jar) for jar in jars), str(Path(pyspark.__file__).with_name("jars") / "*")]
    command = [str(java.program), "-Xmx512m", f"-Djava.io.tmpdir={tmp_path}"]
    command += [f"-D{key}={value}" for key, value in OPTIONS.items()]
    command += ["-cp", os.pathsep.join(path), "org.junit.platform.console.ConsoleLauncher", "execute"]
    command += ["--disable-banner", "--details=none", f"--reports-dir={tmp_path}"]
    command += [part for suite in SUITES for part in ("-c", f"org.apache.iceberg.rest.{suite}")]
    environment = {**os.environ, "CATALOG_URI": alone.uri, "CATALOG_TOKEN": alone.token}
    log = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=800)
    report = tmp_path / "TEST-junit-jupiter.xml"
    assert report.exists(), log.stdout + log.stderr
    failed, passed = results(report)
    expected = listed("expected_failures.txt", ":")
    assert {name: why for name, why in failed.items() if name not in expected} == {}
    assert sorted(set(expected) & passed) == [], "listed as expected failures, but they pass"
    assert len(passed) >= PASSING


def results(report: Path) -> tuple[dict[str, str], set[str]]:
    """What failed with its message, and what passed; skipped tests are neither."""
    failed: dict[str, str] = {}
    passed: set[str] = set()
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.attrib['classname'].rpartition('.')[2]}.{case.attrib['name'].partition('(')[0]}"
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        if problem is not None:
            failed[name] = problem.get("message") or (problem.text or "")[:500]
        elif case.find("skipped") is None:
            passed.add(name)
    return failed, passed
