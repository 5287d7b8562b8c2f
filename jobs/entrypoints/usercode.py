"""Importing a repository's modules, and telling its author what went wrong and where."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import jobs.transforms
from jobs.engine.failures import describe, name_kind
from jobs.protocol import CodeError, JobError
from jobs.transforms.stack_frames import RECORDING

MAX_TRACEBACK_LINES = 60
_RESERVED = frozenset({"jobs", "transforms", "webapp"})


def prepare_imports(root: Path) -> None:
    """Let the repository's modules be imported, ours staying under their own names; its warnings go to the log."""
    sys.path[:] = [str(root), *(entry for entry in sys.path if entry not in ("", str(root)))]
    # Spark's functions at module level, such as F.col("x"), then need no session
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    # nothing is written into the folder with the code, which may be read-only
    sys.dont_write_bytecode = True
    # bytecode that somebody committed is not what the source says
    sys.pycache_prefix = "/nonexistent"
    jobs.transforms.install()
    importlib.invalidate_caches()
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_PlacedFormatter(root))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for noisy in ("pyiceberg", "py4j", "pyspark", "urllib3", "numexpr"):
        logging.getLogger(noisy).setLevel(logging.ERROR)


def allow_functions_before_session() -> None:
    """Let `@F.udf("string")` stand at module level: Spark would ask a session what the type means, which comes later."""
    from pyspark.errors import PySparkRuntimeError  # only where Spark is used
    from pyspark.sql import types
    from pyspark.sql.connect import udf
    from pyspark.sql.connect.types import UnparsedDataType

    def parse(text: str) -> types.DataType:
        try:
            parsed: types.DataType = types._parse_datatype_string(text)
        except PySparkRuntimeError:
            return UnparsedDataType(text)  # the server parses it
        return parsed

    udf._parse_datatype_string = parse


def ship_modules(root: Path) -> None:
    """Let functions that run inside Spark bring the repository's code along: the server cannot import it."""
    from pyspark import cloudpickle  # only Spark jobs

    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and _inside(file, root):
            cloudpickle.register_pickle_by_value(module)


class _PlacedFormatter(logging.Formatter):
    """Writes `pipelines/delays.py:41 text`, and the level where it says something."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def format(self, record: logging.LogRecord) -> str:
        path = Path(record.pathname)
        place = path.relative_to(self._root) if path.is_relative_to(self._root) else record.name
        line = f":{record.lineno}" if path.is_relative_to(self._root) else ""
        level = "" if record.levelno <= logging.INFO else f" {record.levelname.lower()}:"
        return f"{place}{line}{level} {super().format(record)}"


def check_package_name(name: str) -> str | None:
    """Return why a package name cannot be used, if so."""
    if not all(part.isidentifier() for part in name.split(".")):
        return f"{name!r} is no package name"
    top = name.split(".", maxsplit=1)[0]
    if top in _RESERVED or top in sys.stdlib_module_names:
        return f"a package cannot be named {top!r}: that name is taken"
    return None


def describe_failure(error: BaseException, root: Path, *, fallback: str = "") -> CodeError:
    """Say what went wrong in the author's terms: the innermost line of the repository, and the message."""
    if isinstance(error, SyntaxError) and error.filename and _inside(error.filename, root):
        return CodeError(_relative(error.filename, root), error.lineno or 0, f"{type(error).__name__}: {error.msg}")
    file, line = fallback, 0
    for frame in _frames(error.__traceback__, root):
        file, line = _relative(frame.filename, root), frame.lineno or 0
    return CodeError(file, line, f"{type(error).__name__}: {describe(error)}")


def describe_job_error(error: BaseException, root: Path) -> JobError:
    """Say the same of a running transform, with its traceback from the repository's first line on."""
    placed = describe_failure(error, root)
    lines = _format_traceback(error, root)
    if len(lines) > MAX_TRACEBACK_LINES:
        half = MAX_TRACEBACK_LINES // 2
        lines = [*lines[:half], f"  ... {len(lines) - 2 * half} lines ...", *lines[-half:]]
    message = placed.message.removeprefix("TransformError: ").removeprefix("CheckFailed: ")
    return JobError(message, placed.file, placed.line, "\n".join(lines), code=name_kind(error))


def _format_traceback(error: BaseException, root: Path) -> list[str]:
    """Write a traceback for the author of the code: its own lines, and the last one of the library below each."""
    shown = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = shown
    while part is not None:
        part.stack[:] = [frame for frame in part.stack if frame.filename not in RECORDING]
        own = [index for index, frame in enumerate(part.stack) if _inside(frame.filename, root)]
        part.stack[:] = [frame for index, frame in enumerate(part.stack) if index in {*own, len(part.stack) - 1}]
        for frame in part.stack:
            frame.filename = _relative(frame.filename, root)
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    # Spark adds where its own Java code was
    return "".join(shown.format()).split("\n\nJVM stacktrace:")[0].rstrip().splitlines()


def _frames(trace: TracebackType | None, root: Path) -> Iterator[traceback.FrameSummary]:
    yield from (frame for frame in traceback.extract_tb(trace) if _inside(frame.filename, root))


def _inside(filename: str, root: Path) -> bool:
    return Path(filename).is_relative_to(root)


def _relative(filename: str, root: Path) -> str:
    path = Path(filename)
    if path.is_relative_to(root):
        return str(path.relative_to(root))
    # a library's place on this machine says nothing to the reader
    for marker in ("site-packages", "lib/python3"):
        _, separator, rest = filename.rpartition(f"/{marker}")
        if separator:
            return rest.lstrip("/") if marker == "site-packages" else rest.partition("/")[2]
    return path.name
