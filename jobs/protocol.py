"""Messages between the web side and job processes: frozen dataclasses and versioned JSON.

Nothing but the standard library behind it, because both worlds import it. Every message is one JSON object
``{"protocol": 1, "kind": "JobManifest", "body": {...}}``; `dump` writes it, `load` reads it and raises
`ProtocolError` with a sentence that says what is wrong. A job's answer comes from a process that ran
somebody's code, so whatever is read back is checked field by field and never trusted further than that.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
import typing
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from jobs.parsing import load_json
from jobs.regular_files import read_regular
from jobs.whole_files import write_whole

VERSION = 1
MAX_MESSAGE_BYTES = 32 * 1024 * 1024

Profile = Literal["light", "spark"]
Size = Literal["small", "medium", "large"]
Executor = Literal["auto", "embedded", "spark"]
EMBEDDED_BYTES = 256 * 1024 * 1024
"""Rows that one process compares, decoded; larger differences are for Spark where there is one."""
OnError = Literal["FAIL", "WARN"]
Message = TypeVar("Message")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MOST_NUMBER = 2**63
MOST_SAID = 20_000
"""Signs of what is said about a failure: it is stored, and read by everybody who lists what failed."""
MOST_SAID_OF_EACH = 4_000
"""The same where one answer says many such things."""
_MOST_PROBLEM = 1_000
MOST_USED = 2_000
"""Files that a job's result names; a job that uses more depends on the whole repository."""
CATALOG_BUSY = "ServiceUnavailableError"
"""Code of a job's error: the catalog answered 503 until the job gave up. PyIceberg's name for it."""
LOST_COMMIT = "CommitFailedException"
"""Code of a job's error: other commits won every race until the job gave up. PyIceberg's name for it."""
CLOCK_BEHIND = "InvalidUpdateTimestamp"
"""Code of a job's error: Spark's clock is behind the one that dated the table."""


class ProtocolError(ValueError):
    """A message cannot be read: another version, another kind, or a field of the wrong shape."""

    def __init__(self, problem: str) -> None:
        super().__init__(shorten(problem, _MOST_PROBLEM))


def shorten(text: str, most: int) -> str:
    """Return the start of a text that is longer, and how much was left out."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more signs)"


def _at_most(most: int) -> Mapping[str, int]:
    """Limit a field as the column is limited that keeps it.

    A text has so many signs at most, a list so many entries, and a number is between 0 and that.
    """
    return {"at_most": most}


def _cut_at(most: int) -> Mapping[str, int]:
    """Keep the start of a text alone: people's code says it, and may say as much as fits into a message."""
    return {"cut_at": most}


# --- JobSpecs: what a commit publishes ------------------------------------------------------------


@dataclass(frozen=True)
class InputSpec:
    """One declared input; `branch` only where the code names one."""

    name: str = field(metadata=_at_most(200))
    path: str = field(metadata=_at_most(400))
    branch: str | None = field(default=None, metadata=_at_most(220))
    columns: tuple[str, ...] = ()
    """Those that its code asks for by name when it reads the input."""
    is_listed: bool = False
    """Whether its code asks for no others."""


@dataclass(frozen=True)
class CheckSpec:
    """One expectation of an output, described in words."""

    name: str = field(metadata=_cut_at(MOST_SAID_OF_EACH))
    expectation: str = field(metadata=_cut_at(MOST_SAID_OF_EACH))
    on_error: OnError = "FAIL"


@dataclass(frozen=True)
class OutputSpec:
    """One declared output with its checks."""

    name: str = field(metadata=_at_most(200))
    path: str = field(metadata=_at_most(400))
    checks: tuple[CheckSpec, ...] = ()


@dataclass(frozen=True)
class JobSpec:
    """A published transform. `digest` moves only when what it computes may have changed."""

    function: str = field(metadata=_at_most(400))
    file: str = field(metadata=_at_most(1000))
    line: int = field(metadata=_at_most(2**31 - 1))
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    digest: str = field(metadata=_at_most(128))
    profile: Profile = "light"
    size: Size = "small"
    incremental: bool = False
    description: str = ""
    words: tuple[str, ...] | None = None
    """Words of its code, in small letters, that may name columns; None where nobody has looked or they are too many."""
    covers: tuple[str, ...] = ()
    """Keys of the modules and files that its digest covers; see `jobs/transforms/trace.py`."""
    why_all: str = field(default="", metadata=_cut_at(MOST_SAID_OF_EACH))
    """Why the whole repository counts; empty if it does not."""


@dataclass(frozen=True)
class DatasetRules:
    """Review rules of one dataset, from `[datasets."/x/y"]` in pipeline.toml.

    `tolerance` is by column "absolute", "relative" or both, of which one must hold.
    """

    path: str
    key: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    tolerance: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    row_filter: str | None = None


@dataclass(frozen=True)
class CodeError:
    """A problem in the repository's code, placed for the reader; line 0 means the whole file."""

    file: str = field(metadata=_cut_at(MOST_SAID_OF_EACH))
    line: int
    message: str = field(metadata=_cut_at(MOST_SAID_OF_EACH))


@dataclass(frozen=True)
class PublishRequest:
    """Import the modules of one commit, exported to `root`. Without packages pipeline.toml names them."""

    root: str
    result_path: str
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishResult:
    """What one commit declares. With errors nothing is published and the last good JobSpecs stay."""

    jobspecs: tuple[JobSpec, ...] = ()
    errors: tuple[CodeError, ...] = ()
    packages: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    datasets: tuple[DatasetRules, ...] = ()
    code: Mapping[str, str] = field(default_factory=dict)
    """Path → fingerprint of every module of the commit: comments, layout and docstrings do not count."""


# --- jobs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PinnedInput:
    """One input at the transaction the plan fixed; `snapshot_id` None means the empty table.

    `since_snapshot_id` is the snapshot that the output's last build read, None on a first or full build.
    """

    name: str
    path: str
    table: str
    branch: str
    transaction: str
    snapshot_id: int | None = None
    since_snapshot_id: int | None = None


@dataclass(frozen=True)
class OutputTarget:
    """One output table that the job writes on its staging branch."""

    name: str
    path: str
    table: str


@dataclass(frozen=True)
class JobManifest:
    """Everything a job needs. `branch` is the staging branch that the token writes, `build_branch` what users see.

    `is_incremental` says that the plan allows building on the outputs' previous contents.
    """

    job_id: str
    root: str
    function: str
    catalog_uri: str
    token: str
    branch: str
    build_branch: str
    inputs: tuple[PinnedInput, ...]
    outputs: tuple[OutputTarget, ...]
    result_path: str
    warehouse: str = ""
    profile: Profile = "light"
    size: Size = "small"
    spark_remote: str | None = None
    spark_session_id: str | None = None
    spark_folder: str = ""
    """A folder that Spark's server sees too, where outputs are in an object store."""
    is_incremental: bool = False
    is_first: bool = False
    """Whether no output has ever been written."""
    why_full: str = ""
    """Why there is no earlier build to go on from, where there is none."""
    executor: Executor = "auto"
    """Who computes changelogs in a Spark transform; "auto" goes by the size of the rows."""
    embedded_bytes: int = EMBEDDED_BYTES
    covers: tuple[str, ...] = ()
    """Keys that the digest covers: other files that the job uses are recorded with its result."""
    endpoints: tuple[str, ...] = ()
    """What the catalog can do, as its configuration lists it; empty if the job must ask."""
    prepared: Mapping[str, str] = field(default_factory=dict)
    """Input table -> file with the catalog's answer to loading it; the job asks for the others."""
    masked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Output path → columns, as `fold_column` writes them, that not all who see the build may see."""


@dataclass(frozen=True)
class StagedFile:
    """A file that was sent, and how its rows are read."""

    file: str
    format: Literal["csv", "jsonl", "parquet"]
    mode: Literal["snapshot", "append"]
    delimiter: str = ""
    """Of a CSV file; found from its first line where it is empty."""
    has_header: bool = True
    types: Mapping[str, str] = field(default_factory=dict)
    """Columns whose Iceberg types somebody chose."""
    sha256: str = ""
    """Of one that was loaded before: it is refused where it has other bytes now."""


@dataclass(frozen=True)
class UploadManifest:
    """Files to be read into one table on the staging branch, one after the other."""

    job_id: str
    files: tuple[StagedFile, ...]
    path: str
    table: str
    catalog_uri: str
    token: str
    branch: str
    build_branch: str
    result_path: str


@dataclass(frozen=True)
class JobError:
    """Why a job failed: one sentence, and where in the repository's code when it came from there."""

    message: str = field(metadata=_cut_at(MOST_SAID))
    file: str = field(default="", metadata=_cut_at(MOST_SAID_OF_EACH))
    line: int = 0
    traceback: str = ""
    code: str = field(default="", metadata=_cut_at(200))


@dataclass(frozen=True)
class ColumnOrigin:
    """What the values of one column are made of: columns of inputs, by their paths."""

    column: str
    sources: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class LoadedColumn:
    """A column of a file that was loaded, and what could not be kept of it."""

    name: str = field(metadata=_cut_at(MOST_SAID_OF_EACH))
    type: str = field(metadata=_cut_at(MOST_SAID_OF_EACH))
    """As Iceberg writes it."""
    nulls: int
    """Rows without a value."""
    warnings: tuple[str, ...] = field(default=(), metadata=_at_most(100))
    """Sentences without values of the file: not everybody who sees them may see the column."""


@dataclass(frozen=True)
class OutputResult:
    """What one output holds after the job: all rows, and the snapshot (None when nothing was written)."""

    rows: int
    snapshot_id: int | None
    added_rows: int = 0
    mode: Literal["replace", "append", "changelog", "none"] = "replace"
    origins: tuple[ColumnOrigin, ...] = ()
    """Of the columns of which it is known what they are made of."""
    columns: tuple[LoadedColumn, ...] = field(default=(), metadata=_at_most(5_000))
    """Of what was read from a file."""


@dataclass(frozen=True)
class ExpectationResult:
    """The verdict of one expectation on the staged data."""

    dataset: str = field(metadata=_at_most(400))
    name: str = field(metadata=_cut_at(MOST_SAID_OF_EACH))
    passed: bool
    on_error: OnError
    message: str = field(default="", metadata=_cut_at(MOST_SAID_OF_EACH))


@dataclass(frozen=True)
class JobResult:
    """The answer of `run` and `upload`; `outputs` by dataset path."""

    status: Literal["ok", "failed"]
    outputs: Mapping[str, OutputResult] = field(default_factory=dict)
    checks: tuple[ExpectationResult, ...] = field(default=(), metadata=_at_most(1_000))
    error: JobError | None = None
    used: tuple[str, ...] = field(default=(), metadata=_at_most(MOST_USED))
    """Keys of the files of the repository that it used beyond those that its digest covers."""


@dataclass(frozen=True)
class Progress:
    """How far a job is, rewritten now and then as `progress.json` beside the result."""

    FILE: ClassVar[str] = "progress.json"

    done: int
    total: int
    unit: Literal["rows", "tasks"]


@dataclass(frozen=True)
class InterruptRequest:
    """End the Spark session of a job that was killed: its queries run on otherwise."""

    spark_remote: str
    job_id: str
    spark_session_id: str


# --- diff -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SideRef:
    """One end of a row diff, read from the metadata file itself: no catalog, no token.

    `snapshot_id` None means the empty table. `schema_id` is what the branch tracks; None takes the snapshot's own.
    `spec_id` and `order_id` only feed the schema diff.
    """

    metadata_location: str
    snapshot_id: int | None = None
    schema_id: int | None = None
    spec_id: int | None = None
    order_id: int | None = None


@dataclass(frozen=True)
class SparkAccess:
    """A Spark session of one's own, and a folder that Spark reads and the process writes.

    Where there is an `answer`, Spark is not to be asked before that file is there: it holds why there is no Spark, or nothing.
    """

    remote: str
    owner: str
    session_id: str
    folder: str
    answer: str = ""


@dataclass(frozen=True)
class DiffRequest:
    """Compare two ends of a table and write the artifact into `folder`, which must exist.

    A side that is None does not exist (a dataset that is new or removed). `key` None or empty asks for net changes.
    The ends need not be related: any two snapshots will do. `tolerance` is by column: "absolute", "relative" (a share of
    the larger value) or both, of which one must hold. `row_filter` chooses the rows to compare at both ends, in the words
    of PyIceberg's filters.
    """

    before: SideRef | None
    after: SideRef | None
    folder: str
    result_path: str
    key: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    tolerance: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    row_filter: str | None = None
    executor: Executor = "auto"
    embedded_bytes: int = EMBEDDED_BYTES
    """Rows that may differ, decoded, which this process compares itself where "auto" decides."""
    spark: SparkAccess | None = None
    spark_obstacle: str = ""
    """Why there is no Spark, where there is none."""
    memory_bytes: int = 512 * 1024 * 1024
    threads: int = 2
    time_limit_s: float = 600.0
    row_limit: int = 5_000_000
    """Changed rows that are stored; the counts stay exact beyond it and the summary says so."""
    io: Mapping[str, str] = field(default_factory=dict)
    """File access properties in PyIceberg's names, for `s3:` locations."""


DiffFailure = Literal[
    "expired",
    "bad_rules",
    "unsupported",
    "unreadable",
    "memory_limit",
    "disk_limit",
    "time_limit",
    "cancelled",
    "crashed",
    "duplicate_rows",
    "refused",
]


@dataclass(frozen=True)
class DiffResult:
    """The answer of `diff`. The counts stand in the artifact's summary.json, which exists only when status is ok."""

    status: Literal["ok", "failed"]
    code: DiffFailure | None = None
    message: str = field(default="", metadata=_cut_at(MOST_SAID))
    summary: Mapping[str, Any] = field(default_factory=dict)


# --- questions about a table's history ------------------------------------------------------------


@dataclass(frozen=True)
class ChangelogRequest:
    """Store the changelog after snapshot `start` (None: from nothing) up to `end` (None: the head); answers a DiffResult.

    `metadata_location` is a metadata file that shows the branch as main: its current schema is the changelog's.
    """

    metadata_location: str
    folder: str
    result_path: str
    start: int | None = None
    end: int | None = None
    keys: tuple[str, ...] | None = None
    images: Literal["first", "latest"] = "first"
    io: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BlameStep:
    """One transaction to look at: what it stands on (None: nothing) and what it left."""

    transaction: str
    before: SideRef | None
    after: SideRef


@dataclass(frozen=True)
class BlameRequest:
    """Find which of the steps, newest first, changed the row of one key; answers a DiffResult.

    `key` gives each identifier column its value as text (binary as base64), None for NULL. A row that differs in
    `ignore` columns only did not change. After `time_limit_s` the answer names the step to go on from.
    """

    steps: tuple[BlameStep, ...]
    key: Mapping[str, str | None]
    folder: str
    result_path: str
    ignore: tuple[str, ...] = ()
    time_limit_s: float = 20.0
    memory_bytes: int = 512 * 1024 * 1024
    io: Mapping[str, str] = field(default_factory=dict)


def fold_column(name: str) -> str:
    """Return the text that `masked` has for a column, whichever case and form of Unicode its name is written in.

    For hiding alone: more names count as one than where columns are matched (`jobs.engine.read.column_names.fold`).
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


@dataclass(frozen=True)
class QueryTable:
    """A table at one transaction, with the names that a query calls it by, and what opens its files."""

    names: tuple[str, ...]
    side: SideRef
    io: Mapping[str, str] = field(default_factory=dict)
    masked: tuple[str, ...] = ()
    """Columns, as `fold_column` writes them, that are NULL in every row: they are hidden from who asks."""
    is_empty: bool = False
    """Whether only its columns count: where it is asked for, it has no rows yet."""


@dataclass(frozen=True)
class ReadTablesRequest:
    """Read these tables for a process that runs a user's SQL, which asks for their rows over a channel.

    `base` has the same tables on another branch. `folder` takes what memory does not hold; the other process cannot see it.
    """

    tables: tuple[QueryTable, ...]
    folder: str
    base: tuple[QueryTable, ...] | None = None
    memory_bytes: int = 256 * 1024 * 1024
    """Of one scan."""
    spill_bytes: int = 1024**3
    threads: int = 2


@dataclass(frozen=True)
class QueryRequest:
    """Run one reading statement of SQL and store its result in `folder`; answers a DiffResult.

    The tables come over a channel from a process that runs a ReadTablesRequest. At most `row_limit` rows are kept, and none
    after `byte_limit` bytes. With `has_base` the statement also runs over the tables of the base, and the difference of both
    results is stored.
    """

    sql: str
    folder: str
    result_path: str
    row_limit: int = 100_000
    byte_limit: int = 64 * 1024 * 1024
    memory_bytes: int = 512 * 1024 * 1024
    spill_bytes: int = 2 * 1024**3
    threads: int = 2
    time_limit_s: float = 60.0
    has_base: bool = False


# --- previews of code that is not committed -------------------------------------------------------


@dataclass(frozen=True)
class SampledTable:
    """A table of which the first rows are taken into `file`; `metadata_location` shows as main what is read."""

    path: str
    metadata_location: str
    file: str
    io: Mapping[str, str] = field(default_factory=dict)
    masked: tuple[str, ...] = ()
    """Columns, as `fold_column` writes them, that are NULL in every row: they are hidden from who asks."""


@dataclass(frozen=True)
class TakeSamplesRequest:
    """Take the first rows of these tables; answers a DiffResult, whose summary says of each path `rows` and `is_whole`."""

    tables: tuple[SampledTable, ...]
    result_path: str
    row_limit: int
    byte_limit: int
    """Of all rows of one table, decoded."""


@dataclass(frozen=True)
class SampledInput:
    """A sample for transforms to read, and what it is a sample of."""

    path: str
    branch: str
    transaction: str
    file: str


@dataclass(frozen=True)
class PreviewOutput:
    """Where the rows that are written to a dataset go instead."""

    path: str
    file: str


@dataclass(frozen=True)
class RunPreviewRequest:
    """Run these transforms of the code at `root` over samples; answers a PreviewResult. No table is within reach."""

    root: str
    functions: tuple[str, ...]
    inputs: tuple[SampledInput, ...]
    outputs: tuple[PreviewOutput, ...]
    branch: str
    result_path: str
    row_limit: int
    byte_limit: int


@dataclass(frozen=True)
class PreviewedOutput:
    """What a transform has written to one dataset."""

    path: str = field(metadata=_at_most(400))
    is_append: bool = False
    is_cut: bool = False
    """Whether it has written more than is kept."""


@dataclass(frozen=True)
class PreviewFailure:
    """A transform that failed."""

    function: str = field(metadata=_at_most(400))
    error: JobError


@dataclass(frozen=True)
class PreviewResult:
    """The answer of `preview`: what was written, and what failed."""

    outputs: tuple[PreviewedOutput, ...] = ()
    failures: tuple[PreviewFailure, ...] = ()


@dataclass(frozen=True)
class PreviewedTable:
    """Rows that a preview has written, and those that the committed code has written from the same samples."""

    path: str
    after: str
    before: str = ""
    """Empty where there is nothing to compare with."""
    metadata_location: str = ""
    """Shows as main what the branch has of the dataset now; empty where it has nothing."""
    is_append: bool = False
    is_cut: bool = False
    """Whether one of both sides has more rows than are kept."""
    key: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    """Columns that are not compared."""


@dataclass(frozen=True)
class DescribePreviewRequest:
    """Describe what a preview has written: rows, columns, the schema that a build would give, what differs from `before`.

    Of each table `rows-<n>.parquet` and `difference-<n>.parquet` are left in `folder`; answers a DiffResult.
    """

    tables: tuple[PreviewedTable, ...]
    folder: str
    result_path: str
    row_limit: int
    byte_limit: int
    memory_bytes: int = 512 * 1024 * 1024
    threads: int = 2


# --- reading for the web, over a channel ----------------------------------------------------------


@dataclass(frozen=True)
class RowsRequest:
    """A page of a table's rows, for `read`; `metadata` shows what is to be read as main.

    `sort` is a column, with a minus in front in descending order; `where` is DuckDB's SQL with its `parameters`, over the
    aliases of `searched` (alias → column). These two look at the first `scanned_rows` at most.
    """

    metadata: Mapping[str, Any]
    columns: tuple[str, ...]
    start: int
    limit: int
    sort: str
    where: str
    parameters: tuple[object, ...]
    searched: Mapping[str, str]
    scanned_rows: int


@dataclass(frozen=True)
class SampleRequest:
    """The beginning of a file that somebody sent, for `read`."""

    location: str
    format: Literal["csv", "jsonl", "parquet"]
    shown: int
    """Rows."""
    delimiter: str = ""
    has_header: bool = True


ExportFormat = Literal["csv", "parquet"]


@dataclass(frozen=True)
class ExportedValue:
    """One column of an export: the values of a stored column at one end."""

    side: Literal["before", "after"]
    name: str
    path: tuple[str, ...]
    """The stored column, then fields inside it."""
    is_text: bool


@dataclass(frozen=True)
class RowExport:
    """All rows of a stored row diff as one file, for `artifact`."""

    format: ExportFormat
    values: tuple[ExportedValue, ...]
    columns: tuple[tuple[int, str], ...]
    """Indexes of the diff's columns and their names."""


ReadFailure = Literal["damaged", "beyond", "memory"]


# --- JSON -----------------------------------------------------------------------------------------


def dump(message: object) -> str:
    """Write one message as JSON."""
    if not dataclasses.is_dataclass(message) or isinstance(message, type):
        raise ProtocolError(f"{type(message).__name__} is not a message")
    envelope = {"protocol": VERSION, "kind": type(message).__name__, "body": dataclasses.asdict(message)}
    return json.dumps(envelope, separators=(",", ":"), sort_keys=True)


def load(kind: type[Message], text: str | bytes) -> Message:
    """Read one message of the given kind; every field is checked, unknown fields are refused."""
    try:
        envelope = load_json(text)
    except ValueError as error:
        raise ProtocolError(f"{kind.__name__}: this is not JSON: {error}") from None
    return _open(kind, envelope)


def _open(kind: type[Message], envelope: Any) -> Message:
    if not isinstance(envelope, dict) or "protocol" not in envelope:
        raise ProtocolError(f"{kind.__name__}: this JSON is not a message: it has no 'protocol'")
    if envelope["protocol"] != VERSION:
        raise ProtocolError(
            f"{kind.__name__}: the message speaks protocol {envelope['protocol']!r}, this program speaks {VERSION}; "
            "restart the parts of the program together"
        )
    if envelope.get("kind") != kind.__name__:
        raise ProtocolError(f"expected a {kind.__name__}, got {envelope.get('kind')!r}")
    decoded: Message = _decode(kind, envelope.get("body"), kind.__name__)
    return decoded


def write_message(path: str | Path, message: object) -> None:
    """Write one message to a file so that a reader sees all of it or nothing."""
    write_whole(path, dump(message))


def read_message(kind: type[Message], path: str | Path) -> Message:
    """Read one message from a file. Only a regular file of limited size is one: a job may have made it."""
    return load(kind, _read(kind, path))


def read_answer(kind: type[Message], path: str | Path) -> Message:
    """Read the message that a job has left, as it can be stored."""
    text = _read(kind, path)
    try:
        envelope = load_storable(text)
    except ValueError as error:
        raise ProtocolError(f"{kind.__name__}: this is not JSON: {error}") from None
    return _open(kind, envelope)


def load_storable(text: bytes) -> Any:
    """Read JSON for those who store it: what no database keeps is an error here, or said otherwise.

    Half a surrogate pair or a NUL in a text, as of an error that a transform raises, is shown as a replacement character.

    Raises:
        ValueError: it is no JSON, nests too deep, or has numbers that are none or have more than 64 bits.

    """
    try:
        return _mend(load_json(text, parse_constant=_refuse_number, parse_int=_read_number, parse_float=_read_fraction))
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _refuse_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _read_number(text: str) -> int:
    number = int(text)
    if not -_MOST_NUMBER <= number < _MOST_NUMBER:
        raise ValueError(f"{text} is too large")
    return number


def _read_fraction(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_mend(item) for item in value]
    if isinstance(value, dict):
        return {_mend(key): _mend(item) for key, item in value.items()}
    return value


def _read(kind: type, path: str | Path) -> bytes:
    try:
        text = read_regular(path, at_most=MAX_MESSAGE_BYTES + 1)
    except OSError as error:
        raise ProtocolError(f"{kind.__name__}: no message to read: {error.strerror}") from None
    if len(text) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"{kind.__name__}: the message is larger than {MAX_MESSAGE_BYTES} bytes")
    return text


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint):
        return _decode_dataclass(typing.cast("type", hint), value, where)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, value, where)
    if origin is Literal:
        if value not in arguments:
            raise ProtocolError(f"{where}: {value!r} is none of {', '.join(map(repr, arguments))}")
        return value
    if origin is tuple:
        return _decode_tuple(arguments, value, where)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise ProtocolError(f"{where}: expected an object, got {type(value).__name__}")
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    return _decode_scalar(hint, value, where)


def _decode_dataclass(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ProtocolError(f"{where}: expected an object, got {type(value).__name__}")
    fields = {entry.name: entry for entry in dataclasses.fields(kind)}
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise ProtocolError(f"{where}: unknown field {unknown[0]!r}")
    hints = _hints(kind)
    read: dict[str, Any] = {}
    for name, entry in fields.items():
        if name in value:
            read[name] = _cut(_decode(hints[name], value[name], f"{where}.{name}"), entry.metadata.get("cut_at"))
            _check_limit(read[name], entry.metadata.get("at_most"), f"{where}.{name}")
        elif entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING:
            raise ProtocolError(f"{where}: field {name!r} is missing")
    return kind(**read)


def _cut(value: Any, most: int | None) -> Any:
    return shorten(value, most) if most is not None and isinstance(value, str) else value


def _check_limit(value: Any, most: int | None, where: str) -> None:
    if most is None:
        return
    if isinstance(value, tuple) and len(value) > most:
        raise ProtocolError(f"{where}: {len(value):,} entries are more than the {most} that are stored")
    if isinstance(value, str) and len(value) > most:
        raise ProtocolError(f"{where}: {len(value):,} signs are more than the {most} that are stored")
    if isinstance(value, int) and not 0 <= value <= most:
        raise ProtocolError(f"{where}: {value} is not between 0 and {most}")


def _decode_union(arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    problem = ProtocolError(f"{where}: {value!r} does not fit")
    for argument in arguments:
        if argument is type(None):
            continue
        try:
            return _decode(argument, value, where)
        except ProtocolError as error:
            problem = error
    raise problem


def _decode_tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ProtocolError(f"{where}: expected a list, got {type(value).__name__}")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_decode(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if len(arguments) != len(value):
        raise ProtocolError(f"{where}: expected {len(arguments)} values, got {len(value)}")
    return tuple(
        _decode(hint, item, f"{where}[{index}]")
        for index, (hint, item) in enumerate(zip(arguments, value, strict=True))
    )


def _decode_scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # bool is a subclass of int, and a JSON true is no number
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ProtocolError(f"{where}: expected {hint.__name__}, got {type(value).__name__}")
    return value
