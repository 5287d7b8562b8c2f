"""From rows and values to the messages that a job process reads, and back from its answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from django.conf import settings

from jobs.parsing import load_json
from jobs.protocol import (
    Executor,
    JobError,
    JobManifest,
    JobResult,
    OutputTarget,
    PinnedInput,
    Profile,
    Progress,
    ProtocolError,
    Size,
    StagedFile,
    UploadManifest,
    read_answer,
)
from webapp.builds.runner import paths
from webapp.core.errors import InvalidInput, StorageFull, find_refusal
from webapp.dispatch.processes import Sandbox
from webapp.runtime.fork_server import LOST, SETUP_FAILED
from webapp.runtime.hosts import find_hosts
from webapp.runtime.room import check_room

if TYPE_CHECKING:
    from webapp.builds.models import Job
    from webapp.builds.rules.loads import LoadedFile
    from webapp.builds.rules.values import PreviousBuild

SIGNAL_BASE = 128
KILLED = SIGNAL_BASE + 9
OUT_OF_CPU = SIGNAL_BASE + 24


@dataclass(frozen=True, slots=True)
class Place:
    """Where one attempt of a job keeps its messages."""

    folder: Path

    @property
    def manifest(self) -> Path:
        """The order."""
        return self.folder / "manifest.json"

    @property
    def result(self) -> Path:
        """The answer, written by the job."""
        return self.folder / "result.json"

    @property
    def seal(self) -> Path:
        """What files it left in its tables, written by its keeper where the job cannot reach."""
        return self.folder.with_name(f"{self.folder.name}.seal.json")

    def keep_answers(self, answers: Mapping[str, bytes]) -> dict[str, str]:
        """Write the catalog's answers about tables where the job reads them; return the files by table."""
        files = {}
        for number, (table, answer) in enumerate(answers.items()):
            file = self.folder / f"table-{number}.json"
            file.write_bytes(answer)
            file.chmod(0o644)
            files[table] = str(file)
        return files

    @property
    def progress(self) -> Path:
        """How far it is, rewritten by the job."""
        return self.folder / Progress.FILE


def build_job_manifest(
    *,
    job: Job,
    branch: str,
    token: str,
    root: Path,
    place: Place,
    inputs: Iterable[PinnedInput],
    outputs: Iterable[OutputTarget],
    previous: PreviousBuild,
    spark_folder: Path | None,
    covers: Iterable[str],
    endpoints: Iterable[str],
    prepared: Mapping[str, bytes],
    masked: Mapping[str, Iterable[str]],
) -> JobManifest:
    """Return the order to run a transform."""
    return JobManifest(
        job_id=job.pk,
        root=str(root),
        function=job.function,
        catalog_uri=settings.TRIBUTARY_CATALOG_URI,
        token=token,
        branch=job.staging_branch,
        build_branch=branch,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        result_path=str(place.result),
        warehouse=settings.TRIBUTARY_WAREHOUSE,
        profile=cast("Profile", job.profile),
        size=cast("Size", job.size),
        spark_remote=settings.SPARK_REMOTE if job.profile == "spark" else None,
        spark_session_id=job.spark_session or None,
        spark_folder=str(spark_folder or ""),
        is_incremental=job.is_incremental,
        is_first=previous.is_first,
        why_full=previous.why_full,
        executor=cast("Executor", settings.TRIBUTARY_EXECUTOR),
        embedded_bytes=settings.TRIBUTARY_EMBEDDED_BYTES,
        covers=tuple(covers),
        endpoints=tuple(endpoints),
        prepared=place.keep_answers(prepared),
        masked={path: tuple(columns) for path, columns in masked.items()},
    )


def build_upload_manifest(
    *,
    job: Job,
    branch: str,
    token: str,
    place: Place,
    target: OutputTarget,
    staging: str,
    files: tuple[StagedFile, ...],
) -> UploadManifest:
    """Return the order to read files into one table."""
    return UploadManifest(
        job_id=job.pk,
        files=files,
        path=target.path,
        table=target.table,
        catalog_uri=settings.TRIBUTARY_CATALOG_URI,
        token=token,
        branch=staging,
        build_branch=branch,
        result_path=str(place.result),
    )


def describe_sent_file(upload: Mapping[str, Any]) -> StagedFile:
    """Return the file of an upload as its job reads it."""
    names = {field.name for field in fields(StagedFile)}
    return StagedFile(**{name: value for name, value in upload.items() if name in names})


def describe_kept_file(loaded: LoadedFile) -> StagedFile:
    """Return the file of an earlier upload as the job that repeats the upload reads it."""
    return StagedFile(
        file=str(paths.kept_path(loaded.job)),
        sha256=loaded.sha256,
        format=cast("Any", loaded.format),
        mode=cast("Any", loaded.mode),
        delimiter=loaded.delimiter,
        has_header=loaded.has_header,
        types=loaded.types,
    )


def build_sandbox(
    *,
    place: Place,
    readable: Iterable[str | Path],
    code: Path | None,
    locations: Iterable[str],
    own: Iterable[Path],
    shared: Iterable[Path],
    addresses: Iterable[str],
    with_spark: bool,
) -> Sandbox:
    """Return what the process may see.

    Args:
        place: its messages.
        readable: its file.
        code: the folder of the commit that it runs.
        locations: of the tables that it reads or writes.
        own: its own folders in the tables that it writes, and all that it may write there.
        shared: folders that it shares with the Spark server.
        addresses: the parts that it talks to.
        with_spark: whether a Spark server writes for it.

    """
    readonly = [*(str(path) for path in readable), *map(str, find_folders(locations))]
    return Sandbox(
        readonly=list(dict.fromkeys(readonly)),
        layered=[] if code is None else [str(code)],
        writable=[str(place.folder), *(str(path) for path in shared)],
        hosts=find_hosts(addresses),
        sealed=[str(path) for path in own],
        seal=str(place.seal),
        is_shared=with_spark,
    )


def find_folders(locations: Iterable[str]) -> list[Path]:
    """Return the local folders among table locations; tables in an object store need none."""
    split = [urlsplit(location) for location in locations]
    return [Path(unquote(parts.path)) for parts in split if parts.scheme in {"", "file"}]


def read_result(*, place: Place, code: int) -> JobResult:
    """Return the job's answer, or the failure that its silence and exit code mean."""
    try:
        result = read_answer(JobResult, place.result)
    except ProtocolError as problem:
        return JobResult(status="failed", error=_explain_silence(code, problem))
    if result.status == "ok" and code != 0:
        message = f"The process reported success but ended with exit code {code}."
        return JobResult(status="failed", error=JobError(message=message, code="exit_code"))
    return result


def read_seal(*, place: Place) -> dict[str, dict[str, Any]]:
    """Return the files that the job left in its own folders, by path; the keeper has frozen them.

    Raises:
        InvalidInput: something there is no plain file, or nobody could look.

    """
    try:
        record = load_json(place.seal.read_bytes())
    except (OSError, ValueError) as error:
        message = "What the job wrote was not checked when its process ended, so none of it is used: run it again."
        raise InvalidInput(message, code="not_sealed") from error
    if record["problems"]:
        message = f"The job left what cannot be committed: {'; '.join(record['problems'])}."
        raise InvalidInput(message, code="not_sealed")
    files: dict[str, dict[str, Any]] = record["files"]
    return files


def read_progress(*, place: Place) -> dict[str, Any]:
    """Return how far the job says it is; nothing where it says nothing readable."""
    try:
        return asdict(read_answer(Progress, place.progress))
    except ProtocolError:
        return {}


def _explain_silence(code: int, problem: ProtocolError) -> JobError:
    """Say why there is no answer; on a full disk nothing can be answered."""
    full = find_refusal(check_room)
    if full:
        return JobError(message=f"The job's process could not write. {full}", code=StorageFull.default_code)
    return JobError(message=_explain_exit(code, problem), code="no_result")


def _explain_exit(code: int, problem: ProtocolError) -> str:
    explanations = {
        LOST: "The job runner died, and the job with it.",
        SETUP_FAILED: "The sandbox of the job could not be made; the log says what was missing.",
        KILLED: "The job's process was killed (signal 9): it used too much memory, or somebody ended it.",
        OUT_OF_CPU: "The job used more processor time than its size allows.",
    }
    if code in explanations:
        return explanations[code]
    if code > SIGNAL_BASE:
        return f"The job's process was ended by signal {code - SIGNAL_BASE}."
    return f"The job's process ended with exit code {code} and no readable result: {problem}"
