"""Lines that open a dataset on a branch in Spark, PyIceberg, DuckDB or Polars, complete as they are printed.

The token comes from the environment, so that it is in no history and no notebook.
"""

from __future__ import annotations

from dataclasses import dataclass

from webapp.core.names import MASTER

TOKEN_VARIABLE = "TRIBUTARY_TOKEN"  # noqa: S105 - the name of a variable
S3_PACKAGE = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
SPARK_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


@dataclass(frozen=True)
class Snippet:
    """Lines to copy."""

    id: str
    title: str
    code: str
    note: str


def write_snippets(*, host: str, table: str, branch: str, with_s3: bool = False) -> list[Snippet]:
    """Return the lines for each client; master needs no header. With tables in an object store Spark asks for keys."""
    return [
        Snippet(
            "spark",
            "Spark",
            _spark(host, table, branch, with_s3=with_s3),
            "PySpark 4.1 with Iceberg 1.12; the branch is a header.",
        ),
        Snippet("pyiceberg", "PyIceberg", _pyiceberg(host, table, branch), "pip install pyiceberg[pyarrow]"),
        Snippet("duckdb", "DuckDB", _duckdb(host, table, branch), "pip install duckdb==1.5.5"),
        Snippet("polars", "Polars", _polars(host, table, branch), "pip install polars pyiceberg[pyarrow]"),
    ]


def _spark(host: str, table: str, branch: str, *, with_s3: bool) -> str:
    packages = f"{SPARK_PACKAGE},{S3_PACKAGE}" if with_s3 else SPARK_PACKAGE
    settings = {
        "spark.jars.packages": f'"{packages}"',
        "spark.sql.catalog.t": '"org.apache.iceberg.spark.SparkCatalog"',
        "spark.sql.catalog.t.type": '"rest"',
        "spark.sql.catalog.t.uri": f'"{host}/iceberg"',
        "spark.sql.catalog.t.token": f'os.environ["{TOKEN_VARIABLE}"]',
    }
    if with_s3:
        settings["spark.sql.catalog.t.header.X-Iceberg-Access-Delegation"] = '"vended-credentials"'
    if branch != MASTER:
        settings["spark.sql.catalog.t.header.X-PLTR-Branch"] = f'"{branch}"'
    lines = "\n".join(f'    .config("{name}", {value})' for name, value in settings.items())
    return (
        "import os\nfrom pyspark.sql import SparkSession\n\n"
        f"spark = (\n    SparkSession.builder\n{lines}\n    .getOrCreate()\n)\n"
        f'spark.table("t.{_quote_spark(table)}").show()'
    )


def _quote_spark(table: str) -> str:
    """Quote the parts of a name that SQL would not read as one word."""
    return ".".join(
        part if part.replace("_", "a").isalnum() and not part[0].isdigit() else f"`{part}`" for part in table.split(".")
    )


def _pyiceberg(host: str, table: str, branch: str) -> str:
    header = "" if branch == MASTER else f'    **{{"header.X-PLTR-Branch": "{branch}"}},\n'
    return (
        "import os\nfrom pyiceberg.catalog import load_catalog\n\n"
        "catalog = load_catalog(\n"
        '    "tributary",\n    type="rest",\n'
        f'    uri="{host}/iceberg",\n'
        f'    token=os.environ["{TOKEN_VARIABLE}"],\n'
        f"{header})\n"
        f'table = catalog.load_table("{table}")\n'
        "print(table.scan().to_arrow())"
    )


def _duckdb(host: str, table: str, branch: str) -> str:
    levels, name = table.rsplit(".", 1)
    header = "" if branch == MASTER else f",\n    EXTRA_HTTP_HEADERS MAP {{{{'X-PLTR-Branch': '{branch}'}}}}"
    return (
        "import os\nimport duckdb\n\n"
        'db = duckdb.connect()\ndb.execute("INSTALL iceberg; LOAD iceberg")\n'
        'db.execute(f"""ATTACH \'\' AS t (\n'
        f"    TYPE iceberg, ENDPOINT '{host}/iceberg',\n"
        f"    TOKEN '{{os.environ[\"{TOKEN_VARIABLE}\"]}}'{header}\n"
        ')""")\n'
        f'print(db.sql(\'FROM t."{levels}"."{name}" LIMIT 10\'))'
    )


def _polars(host: str, table: str, branch: str) -> str:
    lines = _pyiceberg(host, table, branch).rsplit("\n", 1)[0]
    return f"import polars as pl\n{lines}\nprint(pl.scan_iceberg(table).head(10).collect())"
