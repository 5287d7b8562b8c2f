"""How the embedded Spark Connect server is started: which Java, which jar, which options."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

JAR_VERSION = "1.12.0"
JAR_NAME = f"iceberg-spark-runtime-4.1_2.13-{JAR_VERSION}.jar"
JAR_COORDINATES = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{JAR_VERSION}"
JAR_PATH = Path(sys.prefix) / "jars" / JAR_NAME
# Amazon's client, by which Iceberg opens files in an object store: 69 MB that only an `s3:` warehouse needs.
AWS_JAR_NAME = f"iceberg-aws-bundle-{JAR_VERSION}.jar"
AWS_JAR_COORDINATES = f"org.apache.iceberg:iceberg-aws-bundle:{JAR_VERSION}"
AWS_JAR_PATH = JAR_PATH.with_name(AWS_JAR_NAME)
# Found, not imported: that would cost every command a second.
SPARK_HOME = Path(sysconfig.get_paths()["purelib"]) / "pyspark"
# Spark on Java 17 and later reaches into these packages; spark-submit would add them, but wants a shell and a module
# that small runtimes lack.
OPENED_PACKAGES = (
    *(f"java.base/java.{name}" for name in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util")),
    *(f"java.base/java.{name}" for name in ("util.concurrent", "util.concurrent.atomic")),
    *(f"java.base/{name}" for name in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs")),
    *(f"java.base/{name}" for name in ("sun.security.action", "sun.util.calendar")),
)
FAIR_POOLS = """<?xml version="1.0"?>
<allocations>
  <pool name="default"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""


def make_command(
    *, java: Path, folder: Path, port: int, memory: str = "1g", cores: int = 2, with_s3: bool = False
) -> list[str]:
    """The server's command line.

    Args:
        java: the Java program.
        folder: the server's own writable folder.
        port: where it listens, on loopback.
        memory: the heap's size.
        cores: tasks at a time.
        with_s3: whether tables are in an object store.

    """
    jars = [JAR_PATH, AWS_JAR_PATH] if with_s3 else [JAR_PATH]
    pools = folder / "fairscheduler.xml"
    pools.write_text(FAIR_POOLS)
    options = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        # Without these two the block manager takes the address of the local network.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        "spark.local.dir": folder / "local",
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.sql.shuffle.partitions": 4,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        # FAIR alone is not enough: sessions share the pool "default", which is FIFO unless the file says otherwise.
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": pools.as_uri(),
        "spark.connect.session.manager.defaultSessionTimeout": "10m",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.jars.ivy": folder / "ivy",
    }
    return [
        str(java),
        f"-Xmx{memory}",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        f"-Djava.io.tmpdir={folder / 'local'}",
        f"-Dderby.system.home={folder}",
        # The sandboxed user has no entry in the password file, so no home to find there.
        f"-Duser.home={folder}",
        "--add-modules=ALL-DEFAULT",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
        "-cp",
        ":".join([f"{SPARK_HOME / 'jars'}/*", *(str(jar) for jar in jars)]),
        "org.apache.spark.deploy.SparkSubmit",
        "--master",
        f"local[{cores}]",
        *(word for name, value in options.items() for word in ("--conf", f"{name}={value}")),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "spark-internal",
    ]
