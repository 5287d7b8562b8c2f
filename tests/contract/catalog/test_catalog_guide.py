"""The guide's "The catalog from outside": every block is run, in order, and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.contract.catalog.conftest import ROOT, Server, environment_of
from tests.factories.guide import Reader, read_chapter
from tests.factories.tiers import further
from webapp.catalog.rules.endpoints import ENDPOINTS
from webapp.catalog.rules.protection import NOT_FROM_A_BRANCH
from webapp.datasets.rules import snippets

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]
CHAPTER = "catalog"
PASSWORD = "a-password-of-tests-1"
A_USER = f"""
import django
django.setup()
from webapp.accounts.services import create_user
create_user(username="ines", password="{PASSWORD}", by=None)
"""


@further("contract/catalog/test_catalog_spark.py::test_creating_on_a_branch")
@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_every_block_prints_what_it_says(server: Server) -> None:
    environment = environment_of(server.home, server.port, server.more)
    subprocess.run([sys.executable, "-c", A_USER], cwd=ROOT, env=environment, check=True)
    reader = Reader(server.uri.removesuffix("/iceberg"), PASSWORD=PASSWORD)

    languages = reader.read(read_chapter(CHAPTER))

    assert set(languages) == {"sh", "python", "sql", "duckdb"}


def test_every_refusal_is_named() -> None:
    chapter = read_chapter(CHAPTER)
    table = chapter[chapter.index("| refused with the header |") :].split("\n\n")[0]

    named = set(re.findall(r"`([\w-]+)`", table))

    refused = {endpoint.operation for endpoint in ENDPOINTS if endpoint.refusal}
    assert named == refused | NOT_FROM_A_BRANCH | {"registerTable", "overwrite"}


def test_versions_are_those_of_the_page() -> None:
    assert f'"{snippets.SPARK_PACKAGE}"' in read_chapter(CHAPTER)
