"""Every dataset of the demo, read by real Spark and real PyIceberg, with and without the branch header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.factories.installation import Installation
from tests.factories.spark import new_session, rest_catalog
from tests.factories.tiers import further

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
BRANCH = "feature/cancelled-flights"
ROWS = {
    "nyc.raw.flights": (336_776, 336_776),
    "nyc.raw.weather": (26_115, 26_115),
    "nyc.raw.planes": (3_322, 3_322),
    "nyc.raw.airports": (1_458, 1_458),
    "nyc.raw.airlines": (16, 16),
    "nyc.clean.weather": (26_115, 26_115),
    "nyc.delays.daily": (5_420, 5_432),
    "nyc.delays.by_carrier": (16, 16),
    "nyc.delays.hours_late": (3_945, 3_902),
}
"""Table → rows on master and on the branch; the others only have to agree between the clients."""


@pytest.fixture(scope="module")
def token(installation: Installation) -> str:
    return installation.make_token()


@pytest.fixture(scope="module")
def tables(installation: Installation, token: str) -> list[str]:
    datasets = installation.get("/datasets?limit=100", token=token)["results"]
    # Tests of pages may have loaded files into datasets of their own.
    paths = [dataset["path"] for dataset in datasets if not dataset["path"].startswith("/nyc/loaded/")]
    return sorted(path.strip("/").replace("/", ".") for path in paths)


@pytest.fixture(scope="module")
def spark(installation: Installation, token: str) -> Any:
    plain = rest_catalog("plain", installation.catalog, token)
    return new_session(plain | rest_catalog("branch", installation.catalog, token, BRANCH))


def pyiceberg_catalog(installation: Installation, token: str, branch: str | None) -> Any:
    from pyiceberg.catalog.rest import RestCatalog

    header = {"header.X-PLTR-Branch": branch} if branch else {}
    return RestCatalog("t", uri=installation.catalog, token=token, **header)


def describe_with_pyiceberg(
    installation: Installation, token: str, table: str, branch: str | None
) -> tuple[int, list[str]]:
    loaded = pyiceberg_catalog(installation, token, branch).load_table(table)
    read = loaded.scan().to_arrow()
    return read.num_rows, read.column_names


@further("contract/catalog/test_partition_names.py::test_a_partitioned_table_is_made_on_two_branches")
def test_every_dataset_reads_equal_in_both_clients(
    installation: Installation, token: str, tables: list[str], spark: Any
) -> None:
    assert len(tables) == 13
    for table in tables:
        for number, (catalog, branch) in enumerate((("plain", None), ("branch", BRANCH))):
            rows, columns = describe_with_pyiceberg(installation, token, table, branch)
            frame = spark.table(f"{catalog}.{table}")
            assert frame.columns == columns, (table, branch)
            assert frame.count() == rows, (table, branch)
            if table in ROWS:
                assert rows == ROWS[table][number], (table, branch)


@further("contract/catalog/test_catalog_spark.py::test_evolving_on_a_branch")
def test_the_branch_has_its_own_schema_and_rows(installation: Installation, token: str, spark: Any) -> None:
    assert "cancelled" not in spark.table("plain.nyc.delays.daily").columns
    assert "cancelled" in spark.table("branch.nyc.delays.daily").columns
    master = describe_with_pyiceberg(installation, token, "nyc.clean.flights", None)
    branch = describe_with_pyiceberg(installation, token, "nyc.clean.flights", BRANCH)
    assert branch[0] > master[0]
    assert "cancelled" in branch[1]
    assert "cancelled" not in master[1]


@further("contract/catalog/test_catalog_spark_isolation.py::test_a_branch_travels_its_own_history")
def test_a_branch_qualifier_reads_that_branch(spark: Any) -> None:
    wanted = spark.table("branch.nyc.delays.daily")
    other = spark.sql("SELECT * FROM branch.nyc.delays.daily.branch_master")
    assert "cancelled" not in other.columns
    assert other.count() == 5_420
    assert wanted.count() == 5_432


def test_no_command_line_shows_the_token_of_the_spark_server(installation: Installation) -> None:
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    tokens = {
        path.read_text().partition("token=")[2]
        for path in (installation.home / "run" / "secrets").glob("*/SPARK_REMOTE")
    }

    lines = [" ".join(_read_words(path / "cmdline")) for path in processes]

    assert len(tokens) == 1
    assert any("SparkConnectServer" in line and str(installation.home) in line for line in lines)
    assert [line for line in lines if any(token in line for token in tokens)] == []


def _read_words(file: Path) -> list[str]:
    try:
        return file.read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []  # it ended meanwhile
