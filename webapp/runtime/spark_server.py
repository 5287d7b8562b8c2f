"""How the embedded Spark Connect server is started: which Java, which jar, which options, in which sandbox."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from webapp.runtime.handed_over import write_private
from webapp.runtime.spark_folders import find_listings, remove_spark_folder

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
TOKEN_OPTION = "spark.connect.authenticate.token"  # noqa: S105 - its name
FAIR_POOLS = """<?xml version="1.0"?>
<allocations>
  <pool name="default"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""
_MIB = 1024**2
_BESIDE_THE_HEAP = 1024 * _MIB
"""What Java holds besides its heap: classes, code, buffers."""
STUCK_SECONDS = 15
"""A task that was asked to end, and has not after so long, ends with the server."""
# Spark's own defaults, and what its task reaper says of such a task in a file of its own: in a server that is one process,
# Spark leaves it at that.
LOGGING = """rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
logger.parquet.name = org.apache.parquet.CorruptStatistics
logger.parquet.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = warn
logger.executor.appenderRef.stuck.ref = stuck
appender.stuck.type = File
appender.stuck.name = stuck
appender.stuck.fileName = {stuck}
appender.stuck.createOnDemand = true
appender.stuck.layout.type = PatternLayout
appender.stuck.layout.pattern = %m%n
appender.stuck.filter.message.type = RegexFilter
appender.stuck.filter.message.regex = Killed task .* could not be stopped within .*
appender.stuck.filter.message.onMatch = ACCEPT
appender.stuck.filter.message.onMismatch = DENY
"""


@dataclass(frozen=True)
class SparkServer:
    """One server: started with `command` and `environment`, reached at `remote`."""

    java: Path
    """The Java program."""
    folder: Path
    """What it and its clients share of this machine: lists of files, which it reads, and its own files."""
    port: int
    """Where it listens, on loopback."""
    token: str
    """What its clients show. It is in no environment and on no command line, which others may read."""
    secrets: Path
    """The folder in which its token is handed over; its owner's alone."""
    tables: tuple[Path, ...] = ()
    """The folders below which tables lie, where they are not in an object store."""
    with_s3: bool = False
    heap_mib: int = 1024
    java_options: str = ""
    """More options of its Java machine, as its variable `JDK_JAVA_OPTIONS` takes them."""
    cores: int = 2
    """Tasks at a time."""
    python_memory_mib: int = 4096
    """Address space of each process that runs Python functions: Arrow alone maps one and a half GiB, and touches little."""
    total_memory_bytes: int | None = None
    """What it may hold with all that it starts; None: the heap and as many such processes as tasks, where there is room."""
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
        """What those who use it need: its address, the folder of this machine that it sees, who opens others."""
        return {
            "SPARK_REMOTE": self.remote,
            "TRIBUTARY_SPARK_FOLDER": str(self.folder),
            "TRIBUTARY_SPARK_OPENER": str(self.opener),
        }

    @property
    def opener(self) -> Path:
        """The socket at which it is lent to one group at a time, with folders of tables to write; it cannot see that."""
        return self.folder.with_name(f"{self.folder.name}.sock")

    @property
    def own(self) -> Path:
        """The folder that it writes, empty at each of its starts: nothing in it is another group's."""
        return self.folder / "own"

    @property
    def environment(self) -> dict[str, str]:
        """All that the server sees of an environment."""
        return {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(SPARK_HOME),
            "HOME": str(self.own),
            "USER": "spark",
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            # Python functions of transforms run beside the server, with the libraries that transforms have.
            "PYSPARK_PYTHON": sys.executable,
            **({"JDK_JAVA_OPTIONS": self.java_options} if self.java_options else {}),
        }

    @property
    def command(self) -> list[str]:
        """The command line, in a sandbox that shows the server its folders only; it wants `environment`."""
        visible = ["--input", str(self._properties), "--opener", str(self.opener), "--fresh", str(self.own)]
        visible += ["--renew-when", str(self._stuck)]
        readonly = [self._pools, self._logging, self.java.resolve().parents[1]]
        visible += [word for path in readonly for word in ("--readonly", str(path))]
        visible += [word for path in (*self.tables, find_listings(self.folder)) for word in ("--openable", str(path))]
        visible += ["--total-memory", str(self.total_memory_bytes or self._usual_memory_bytes)]
        if self.archive is not None:
            visible += ["--readonly", str(self.archive.parent)]
        if self.hosts is not None:
            visible += [word for host in self.hosts for word in ("--host", host)]
            visible += ["--serve", str(self.port)]
        return [
            *(sys.executable, "-m", "jobs.entrypoints.sandbox", *visible),
            *(word for name in self.environment for word in ("--env", name)),
            *("--", *self._inner_command()),
        ]

    def prepare(self) -> None:
        """Make the folders. The server runs as a user of its own."""
        listings = find_listings(self.folder)
        remove_spark_folder(listings)  # of processes that were killed
        listings.mkdir(parents=True)
        self.folder.chmod(0o755)
        for folder in self.tables:
            folder.mkdir(parents=True, exist_ok=True)
        self._pools.write_text(FAIR_POOLS)
        self._logging.write_text(LOGGING.format(stuck=self._stuck))
        write_private(self._properties, f"{TOKEN_OPTION} {self.token}\n")

    @property
    def _properties(self) -> Path:
        return self.secrets / "spark.properties"

    @property
    def _pools(self) -> Path:
        return self.folder / "fairscheduler.xml"

    @property
    def _logging(self) -> Path:
        return self.folder / "log4j2.properties"

    @property
    def _stuck(self) -> Path:
        """The file that appears when a task cannot be ended."""
        return self.own / "stuck-tasks.log"

    @property
    def _usual_memory_bytes(self) -> int:
        machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        wanted_bytes = self.heap_mib * _MIB + _BESIDE_THE_HEAP + self.cores * self.python_memory_mib * _MIB
        return min(wanted_bytes, machine_bytes * 3 // 4)

    @property
    def _jars(self) -> list[Path]:
        return [JAR_PATH, AWS_JAR_PATH] if self.with_s3 else [JAR_PATH]

    def _inner_command(self) -> list[str]:
        return [
            str(self.java),
            f"-Xmx{self.heap_mib}m",
            "-XX:+UseSerialGC",
            "-XX:+ExitOnOutOfMemoryError",
            f"-Djava.io.tmpdir={self.own}",
            f"-Dderby.system.home={self.own}",
            f"-Dlog4j2.configurationFile={self._logging}",
            # The sandboxed user has no entry in the password file, so no home to find there.
            f"-Duser.home={self.own}",
            # Of a damaged one Java takes nothing; unchecked it would load broken classes, and not start again and again.
            *([f"-XX:SharedArchiveFile={self.archive}", "-XX:+VerifySharedSpaces"] if self.archive else []),
            *([f"-XX:ArchiveClassesAtExit={self.archive_at_exit}"] if self.archive_at_exit else []),
            "--add-modules=ALL-DEFAULT",
            *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
            "-cp",
            ":".join([f"{SPARK_HOME / 'jars'}/*", *(str(jar) for jar in self._jars)]),
            "org.apache.spark.deploy.SparkSubmit",
            # Options that are secret come on its standard input, which is a file in memory.
            "--properties-file",
            "/proc/self/fd/0",
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
            "spark.executor.pyspark.memory": f"{self.python_memory_mib}m",
            "spark.sql.planner.pythonExecution.memory": f"{self.python_memory_mib}m",
            "spark.task.reaper.enabled": "true",
            "spark.task.reaper.pollingInterval": "5s",
            "spark.task.reaper.threadDump": "false",
            "spark.task.reaper.killTimeout": f"{STUCK_SECONDS}s",
            "spark.local.dir": self.own,
            "spark.sql.warehouse.dir": self.own / "warehouse",
            "spark.sql.shuffle.partitions": 4,
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.catalogImplementation": "in-memory",
            # FAIR alone is not enough: sessions share the pool "default", which is FIFO unless the file says otherwise.
            "spark.scheduler.mode": "FAIR",
            "spark.scheduler.allocation.file": self._pools.as_uri(),
            "spark.connect.session.manager.defaultSessionTimeout": "10m",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.jars": ",".join(str(jar) for jar in self._jars),
            "spark.jars.ivy": self.own / "ivy",
        }
