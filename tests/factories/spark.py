"""A real Spark in the tests' own process: a process can hold one context, so all tests share it, each with a session of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Compiles little: a run of tests ends before more would pay."""
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings for few rows and long plans: compiling them would take most of the time."""
_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def new_session(options: Mapping[str, str], *, memory: str = "1g", java: str = QUICK_JAVA) -> Any:
    """A session with catalogs and settings that no other sees. Do not stop it: that would stop the context of all.

    `memory` is the heap of the process if this is its first session, and `java` has other options of its Java machine.
    """
    session = _first_session(memory, java).newSession()
    for key, value in options.items():
        session.conf.set(key, value)
    return session


def rest_catalog(name: str, uri: str, token: str, branch: str | None = None) -> dict[str, str]:
    """The settings of a REST catalog, with the branch header or without."""
    key = f"spark.sql.catalog.{name}"
    found = {
        key: "org.apache.iceberg.spark.SparkCatalog",
        f"{key}.type": "rest",
        f"{key}.uri": uri,
        f"{key}.token": token,
    }
    return found if branch is None else {**found, f"{key}.header.X-PLTR-Branch": branch}


@cache
def _first_session(memory: str, java_options: str) -> Any:
    """What takes ten seconds to start; it ends with the process."""
    from pyspark.sql import SparkSession

    from webapp.runtime.java import find_java
    from webapp.runtime.spark_server import JAR_PATH

    java, looked_at = find_java()
    assert java is not None, looked_at
    assert JAR_PATH.exists(), "run make test once: it fetches Iceberg's jar"
    os.environ["JAVA_HOME"] = str(java.program.resolve().parents[1])
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.jars", str(JAR_PATH))
        .config("spark.sql.extensions", _EXTENSIONS)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # or each function looks up where it is called from, for errors, which is a tenth of what small queries take
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session
