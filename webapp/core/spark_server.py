"""How the embedded Spark Connect server is started: which Java, which jar, which options, in which sandbox."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from webapp.core.spark_folders import find_listings, remove_spark_folder

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


@dataclass(frozen=True)
class SparkServer:
    """One server: started with `command` and `environment`, reached at `remote`."""

    java: Path
    """The Java program."""
    folder: Path
    """The server's own writable folder."""
    port: int
    """Where it listens, on loopback."""
    token: str
    warehouse: Path | None = None
    """The folder of tables, where they are not in an object store."""
    with_s3: bool = False
    memory: str = "1g"
    """The heap's size."""
    cores: int = 2
    """Tasks at a time."""
    hosts: tuple[str, ...] | None = None
    """What it reaches, each as `name:port`, in a network of its own; None: the network of this machine."""
    archive: Path | None = None
    """Classes made ready by an earlier run; see `spark_classes`."""
    archive_at_exit: Path | None = None
    """Where to leave such an archive at its end."""

    @property
    def remote(self) -> str:
        """The address for clients. With a token any other name makes them speak TLS to a plain server."""
        return f"sc://localhost:{self.port}/;token={self.token}"

    @property
    def client_environment(self) -> dict[str, str]:
        """What those who use it are told: its address, the folder of this machine that it sees, who opens others."""
        told = {"SPARK_REMOTE": self.remote, "TRIBUTARY_SPARK_FOLDER": str(self.folder)}
        return told if self.warehouse is None else {**told, "TRIBUTARY_SPARK_OPENER": str(self.opener)}

    @property
    def opener(self) -> Path:
        """The socket at which folders of tables are opened for it to write; it cannot see that."""
        return self.folder.with_name(f"{self.folder.name}.sock")

    @property
    def environment(self) -> dict[str, str]:
        """All that the server sees of an environment."""
        return {
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(SPARK_HOME),
            "HOME": str(self.folder),
            "USER": "spark",
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            # Python functions of transforms run beside the server, with the libraries that transforms have.
            "PYSPARK_PYTHON": sys.executable,
        }

    @property
    def command(self) -> list[str]:
        """The command line, in a sandbox that shows the server its folders only; it wants `environment`."""
        visible = ["--writable", str(self.folder), "--readonly", str(self.java.resolve().parents[1])]
        if self.warehouse is not None:
            visible += ["--openable", str(self.warehouse), "--opener", str(self.opener)]
        if self.archive is not None:
            visible += ["--readonly", str(self.archive.parent)]
        if self.hosts is not None:
            visible += [word for host in self.hosts for word in ("--host", host)]
            visible += ["--serve", str(self.port)]
        return [
            *(sys.executable, "-m", "jobs.entrypoints.sandbox", *visible),
            # By name only: whoever may list processes reads command lines, and one of the values is a secret.
            *(word for name in self.environment for word in ("--env", name)),
            *("--", *self._inner_command()),
        ]

    def prepare(self) -> None:
        """Make the folders. The server runs as a user of its own."""
        remove_spark_folder(find_listings(self.folder))  # of processes that were killed
        for folder in (self.folder, self.folder / "local"):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)
        if self.warehouse is not None:
            self.warehouse.mkdir(parents=True, exist_ok=True)
        self._pools.write_text(FAIR_POOLS)

    @property
    def _pools(self) -> Path:
        return self.folder / "fairscheduler.xml"

    @property
    def _jars(self) -> list[Path]:
        return [JAR_PATH, AWS_JAR_PATH] if self.with_s3 else [JAR_PATH]

    def _inner_command(self) -> list[str]:
        return [
            str(self.java),
            f"-Xmx{self.memory}",
            "-XX:+UseSerialGC",
            "-XX:+ExitOnOutOfMemoryError",
            f"-Djava.io.tmpdir={self.folder / 'local'}",
            f"-Dderby.system.home={self.folder}",
            # The sandboxed user has no entry in the password file, so no home to find there.
            f"-Duser.home={self.folder}",
            *([f"-XX:SharedArchiveFile={self.archive}"] if self.archive else []),
            *([f"-XX:ArchiveClassesAtExit={self.archive_at_exit}"] if self.archive_at_exit else []),
            "--add-modules=ALL-DEFAULT",
            *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
            "-cp",
            ":".join([f"{SPARK_HOME / 'jars'}/*", *(str(jar) for jar in self._jars)]),
            "org.apache.spark.deploy.SparkSubmit",
            "--master",
            f"local[{self.cores}]",
            *(word for name, value in self._options().items() for word in ("--conf", f"{name}={value}")),
            "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer",
            "spark-internal",
        ]

    def _options(self) -> dict[str, object]:
        return {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": self.port,
            # Without these two the block manager takes the address of the local network.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",
            "spark.local.dir": self.folder / "local",
            "spark.sql.warehouse.dir": self.folder / "warehouse",
            "spark.sql.shuffle.partitions": 4,
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.catalogImplementation": "in-memory",
            # FAIR alone is not enough: sessions share the pool "default", which is FIFO unless the file says otherwise.
            "spark.scheduler.mode": "FAIR",
            "spark.scheduler.allocation.file": self._pools.as_uri(),
            "spark.connect.session.manager.defaultSessionTimeout": "10m",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.jars": ",".join(str(jar) for jar in self._jars),
            "spark.jars.ivy": self.folder / "ivy",
        }
