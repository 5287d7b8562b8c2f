"""Apache Iceberg's own REST Compatibility Kit, its catalog and view suites, against a server of this code.

It is of the long tier: each run has unmodified clients ask the catalog. The jars come from Maven, once, checked against
their digests; Spark's own jars are the rest of the class path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pyspark
import pytest

from tests.contract.catalog.conftest import ROOT, Server, start_server
from tests.factories.jars import NoJars, get_jars, read_pairs
from tests.factories.spark import QUICK_JAVA
from webapp.runtime.java import find_java

pytestmark = [pytest.mark.contract, pytest.mark.soak, pytest.mark.timeout(900)]
KIT = Path(__file__).with_name("kit")
JARS = ROOT / ".venv" / "jars" / "kit"
SUITES = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")
TABLES = (Path("/tmp/newdb"), Path("/tmp/ns"))  # noqa: S108 - constants of the kit
"""Folders below which it says that tables lie."""
PASSING = 135
"""Fewer names of passing tests mean that the kit has not run as it should: it has 141, ten of them for other kinds of catalog."""
OPTIONS = {
    "rck.local": "false",
    "rck.requires-namespace-create": "true",
    "rck.supports-names-with-dot": "true",
}


@pytest.fixture(scope="module")
def jars() -> list[Path]:
    """The kit's jars; skips only where neither they nor Maven or its registry are at hand."""
    try:
        return get_jars(read_pairs(KIT / "jars.txt"), JARS)
    except NoJars as error:
        pytest.skip(f"the kit cannot run: {error}")


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kit's own folder, below which it says that views lie."""
    return tmp_path_factory.mktemp("views")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, views: Path) -> Iterator[Server]:
    """A server for the kit, which expects to find nothing and to choose locations."""
    made = [folder for folder in TABLES if not folder.exists()]
    prefixes = " ".join(f"file:{folder}" for folder in (*TABLES, views))
    running = start_server(tmp_path_factory.mktemp("kit"), TRIBUTARY_LOCATIONS=prefixes)
    yield running
    running.process.terminate()
    running.process.wait(20)
    for folder in made:
        shutil.rmtree(folder)


def test_the_kit_passes_but_for_what_is_listed(jars: list[Path], alone: Server, views: Path, tmp_path: Path) -> None:
    java, looked_at = find_java()
    if java is None:
        pytest.skip(f"Java is not here, found {looked_at}")
    path = [*(str(jar) for jar in jars), str(Path(pyspark.__file__).with_name("jars") / "*")]
    command = [str(java.program), *QUICK_JAVA.split(), "-Xmx512m", f"-Djava.io.tmpdir={views}"]
    command += [f"-D{key}={value}" for key, value in OPTIONS.items()]
    command += ["-cp", os.pathsep.join(path), "org.junit.platform.console.ConsoleLauncher", "execute"]
    command += ["--disable-banner", "--details=none", f"--reports-dir={tmp_path}"]
    command += [part for suite in SUITES for part in ("-c", f"org.apache.iceberg.rest.{suite}")]
    environment = {**os.environ, "CATALOG_URI": alone.uri, "CATALOG_TOKEN": alone.token}
    log = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=800)
    report = tmp_path / "TEST-junit-jupiter.xml"
    assert report.exists(), log.stdout + log.stderr
    failed, passed = results(report)
    expected = read_pairs(KIT / "expected_failures.txt", ":")
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
