"""Claims about the repository as a whole that nothing else would notice."""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from pytest_socket import SocketConnectBlockedError

ROOT = Path(settings.BASE_DIR)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def list_files() -> list[Path]:
    """The files that git would put into a clone."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def read_texts() -> dict[str, str]:
    """Every committed text, by its path."""
    texts = {}
    for path in list_files():
        try:
            texts[path.relative_to(ROOT).as_posix()] = path.read_text()
        except UnicodeDecodeError:
            continue
    return texts


def test_no_migration_is_missing(db: None) -> None:
    out = io.StringIO()

    call_command("makemigrations", "--check", "--dry-run", stdout=out)

    assert "No changes detected" in out.getvalue()


def test_no_file_names_a_package_registry() -> None:
    hosts = (
        "pypi" + ".org",
        "registry." + "npmjs",
        "repo1." + "maven",
        "repo.maven" + ".apache",
        "files.python" + "hosted",
    )

    guilty = [name for name, text in read_texts().items() if any(host in text for host in hosts)]

    assert guilty == []


def test_no_file_names_a_path_of_one_machine() -> None:
    places = ("/work/" + "main", "/work/" + "shared", "../" + "shared", "/work/" + "plan")

    guilty = [name for name, text in read_texts().items() if any(place in text for place in places)]

    assert guilty == []


def test_python_has_no_open_ends() -> None:
    words = re.compile(r"#.*\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")

    guilty = [name for name, text in read_texts().items() if name.endswith(".py") and words.search(text)]

    assert guilty == []


@pytest.mark.parametrize(
    "lock",
    ["requirements.txt", "requirements-dev.txt", "bootstrap.txt", "java.txt", "node.txt", "clients.txt", "peers.txt"],
)
def test_lock_has_a_hash_for_every_package(lock: str) -> None:
    text = (ROOT / ".locks" / lock).read_text().replace("\\\n", " ")

    pins = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]

    assert pins
    assert [pin.split()[0] for pin in pins if "--hash=sha256:" not in pin] == []


@pytest.mark.parametrize("group", ["dependencies", "dev"])
def test_every_dependency_is_locked_and_has_its_reason(group: str) -> None:
    declared = PROJECT["project"]["dependencies"] if group == "dependencies" else PROJECT["dependency-groups"]["dev"]
    lock = (ROOT / ".locks" / ("requirements.txt" if group == "dependencies" else "requirements-dev.txt")).read_text()
    locked = {match.lower() for match in re.findall(r"^([A-Za-z0-9_.-]+)==", lock, re.MULTILINE)}
    lines = {
        line.split('"')[1]: line
        for line in (ROOT / "pyproject.toml").read_text().splitlines()
        if line.startswith('    "')
    }

    names = {requirement: re.split(r"[\[<>=!~ ;]", requirement)[0].lower() for requirement in declared}

    assert [name for name in names.values() if name not in locked] == []
    assert [requirement for requirement in declared if "#" not in lines.get(requirement, "#")] == []


def test_npm_lock_has_hashes_and_no_addresses() -> None:
    text = (ROOT / "package-lock.json").read_text()

    assert '"integrity"' in text
    assert '"resolved"' not in text


def test_nothing_third_party_or_built_is_committed() -> None:
    committed = [path.relative_to(ROOT).as_posix() for path in list_files()]

    assert [
        name
        for name in committed
        if name.startswith(("static/build/", "static/vendor/", "node_modules/", "staticfiles/"))
    ] == []
    assert [name for name in committed if (ROOT / name).stat().st_size > 1_000_000] == []


def test_every_make_target_of_the_contract_is_there() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE)) | set(re.findall(r"\bbench-[a-z]+", text))

    assert {"run", "test", "soak", "check", "fix", "bench"} <= targets
    assert {"bench-catalog", "bench-builds", "bench-diff", "bench-pages"} <= targets


def test_import_contracts_are_those_and_hold() -> None:
    contracts = {contract["id"] for contract in PROJECT["tool"]["importlinter"]["contracts"]}

    done = subprocess.run(
        [ROOT / ".venv" / "bin" / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    expected = {"apps", "inside", "pure", "two-worlds", "one-door", "jobs", "engine", "acyclic", "no-decoders"}
    assert contracts == expected
    assert done.returncode == 0, done.stdout[-3000:]


IMPORT_ALL = """
import importlib, pkgutil, sys
import django
django.setup()
import webapp
for module in pkgutil.walk_packages(webapp.__path__, "webapp."):
    if ".starters" not in module.name and ".migrations" not in module.name:
        importlib.import_module(module.name)
print(*sorted({"duckdb", "fastavro", "pandas", "polars", "pyarrow"} & set(sys.modules)))
"""


def test_no_module_of_the_web_loads_a_decoder_by_way_of_others(tmp_path: Path) -> None:
    environment = {**os.environ, "TRIBUTARY_HOME": str(tmp_path), "DJANGO_SETTINGS_MODULE": "webapp.config.settings"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT_ALL], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr[-3000:]


def test_tests_connect_to_this_machine_only() -> None:
    with socket.socket() as client, pytest.warns(match="192.0.2.1"), pytest.raises(SocketConnectBlockedError):
        client.connect(("192.0.2.1", 9))
