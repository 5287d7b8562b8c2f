"""README's "Using the catalog from outside": every block is run, in order, and prints what it says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.contract.catalog.conftest import ROOT, Server, environment_of
from webapp.catalog.rules.endpoints import ENDPOINTS
from webapp.catalog.rules.protection import NOT_FROM_A_BRANCH
from webapp.datasets.rules import snippets

pytestmark = [pytest.mark.contract, pytest.mark.spark, pytest.mark.timeout(300)]
BLOCK = re.compile(r"^```(sh|python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"(?:#|--) (\d[\d.]*)(?::.*)?$", re.MULTILINE)
PASSWORD = "a-password-of-tests-1"
A_USER = f"""
import django
django.setup()
from webapp.accounts.services import create_user
create_user(username="ines", password="{PASSWORD}", by=None)
"""


def read_section() -> str:
    """Return the section without the one about object stores, which has tests of its own."""
    text = (ROOT / "README.md").read_text()
    return text.split("## Using the catalog from outside\n")[1].split("\n### ")[0]


class Reader:
    """Somebody who types the blocks one after the other."""

    def __init__(self, server: Server, session: Any) -> None:
        self.server = server
        self.session = session
        self.names: dict[str, Any] = {}
        self.environment = {**os.environ, "PASSWORD": PASSWORD}

    def run(self, language: str, block: str) -> list[str]:
        """Run a block and return the lines that it prints."""
        source = block.replace("http://localhost:8000/iceberg", self.server.uri)
        source = source.replace("http://localhost:8000", self.server.uri.removesuffix("/iceberg"))
        return {"sh": self._run_shell, "python": self._run_python, "sql": self._run_sql}[language](source)

    def _run_shell(self, source: str) -> list[str]:
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f'{source}\necho "token=$TRIBUTARY_TOKEN"'],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ended.returncode == 0, ended.stderr
        *lines, last = ended.stdout.splitlines()
        self.environment["TRIBUTARY_TOKEN"] = last.removeprefix("token=")
        return lines

    def _run_python(self, source: str) -> list[str]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRIBUTARY_TOKEN", self.environment["TRIBUTARY_TOKEN"])
            exec(compile(source, "README.md", "exec"), self.names)  # noqa: S102 - our own README
        return printed.getvalue().splitlines()

    def _run_sql(self, source: str) -> list[str]:
        statements = [line.split("--")[0].strip().rstrip(";") for line in source.splitlines()]
        answers = [self.names["spark"].sql(statement).collect() for statement in statements if statement]
        return [str(rows[0][0]) for rows in answers if rows]


def test_every_block_prints_what_it_says(server: Server, session: Any) -> None:
    environment = environment_of(server.home, server.port, server.more)
    subprocess.run([sys.executable, "-c", A_USER], cwd=ROOT, env=environment, check=True)
    reader = Reader(server, session)
    blocks = BLOCK.findall(read_section())
    assert {language for language, _ in blocks} == {"sh", "python", "sql"}
    for language, block in blocks:
        assert reader.run(language, block) == SAID.findall(block), block


def test_every_refusal_is_named() -> None:
    section = read_section()
    table = section[section.index("| refused with the header |") :].split("\n\n")[0]

    named = set(re.findall(r"`([\w-]+)`", table))

    refused = {endpoint.operation for endpoint in ENDPOINTS if endpoint.refusal}
    assert named == refused | NOT_FROM_A_BRANCH | {"registerTable", "overwrite"}


def test_versions_are_those_of_the_page() -> None:
    assert f'"{snippets.SPARK_PACKAGE}"' in read_section()
