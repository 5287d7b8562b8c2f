"""Previews started by people, run by a worker in sandboxed processes, stopped and removed.

Code that nobody has looked at runs here with the rows of tables, so what it can reach is decided by processes, not by trust:

1. the modules are imported, as a publication does, which says what they declare;
2. a process without any code of the repository takes the first rows of the inputs, as the person may see them;
3. a process that sees these rows and the code, and no table, catalog or network, runs the transforms;
4. the same runs the committed code over the same rows, where that makes the same datasets;
5. a process without any code of the repository describes and compares what both have written.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from django.db import transaction

from jobs.protocol import (
    CodeError,
    DatasetRules,
    DescribePreviewRequest,
    PreviewedOutput,
    PreviewedTable,
    PreviewFailure,
    PreviewOutput,
    PreviewResult,
    ProtocolError,
    RunPreviewRequest,
    SampledInput,
    SampledTable,
    TakeSamplesRequest,
    read_answer,
    write_message,
)
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import can_dataset
from webapp.accounts.services import note_reading, record_audit
from webapp.builds.models import PublishedSpec
from webapp.builds.services import publication, trees
from webapp.catalog import queries as catalog
from webapp.comparisons.services.answers import ANSWER, explain_end, explain_silence, read_result
from webapp.comparisons.services.requests import locate
from webapp.core import clock
from webapp.core.databases import keep_trying
from webapp.core.errors import AppError, Conflict, InvalidInput
from webapp.datasets import queries as datasets
from webapp.datasets.queries.preview import current_schema, read_metadata
from webapp.dispatch.failures import PATIENCE_S, PartLost, settled_failures
from webapp.dispatch.fair_slots import FairSlots
from webapp.dispatch.leases import MAX_LOST, list_stamps, ring_forgotten
from webapp.dispatch.processes import Ending, Sandbox, launch, watch
from webapp.dispatch.sweeps import Turns
from webapp.previews import queries
from webapp.previews.models import CodePreview
from webapp.previews.rules import states
from webapp.previews.rules.states import PreviewState
from webapp.previews.rules.transforms import SUFFIX, choose_transforms
from webapp.repositories import permissions
from webapp.repositories import queries as repositories
from webapp.repositories.services import check_draft, write_drafts
from webapp.runtime import doorbell
from webapp.runtime.folders import make_open_folder, remove_folder
from webapp.runtime.hosts import find_hosts
from webapp.runtime.room import wait_for_room
from webapp.sql.queries import find_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction
    from webapp.dispatch.processes import ProcessEnd
    from webapp.previews.models import PreviewRows
    from webapp.previews.rules.transforms import Chosen
    from webapp.repositories.models import Repository
    from webapp.repositories.services import FileDraft

RUN_TASK = "webapp.previews.tasks.run_preview"
QUEUE = "quick"
turns = Turns()
STAMPS = list_stamps(CodePreview.objects.all)
TIME_LIMIT_S = 30.0
"""Of each process."""
MOST_OWN, MOST_WAITING = 2, 12
"""Previews that are not over yet, of one person and of all."""
SLOTS = FairSlots(3)
"""Previews that run at a time in one worker."""
KEPT = timedelta(days=1)
SAMPLE_ROWS, SAMPLE_BYTES = 10_000, 32 * 1024 * 1024
"""Of each input, decoded."""
OUTPUT_ROWS, OUTPUT_BYTES = 50_000, 64 * 1024 * 1024
"""Of each output, decoded."""
MOST_SIGNS = 2_000_000
"""Of all changed files together."""
MOST_FILES = 31
_GIB = 1024**3
LIMITS = {
    "memory_bytes": 6 * _GIB,
    "cpu_s": 60,
    "nproc": 128,
    "fsize": _GIB // 4,
    "disk_bytes": _GIB // 2,
    "total_memory_bytes": 3 * _GIB // 2,
}
NOUN = "The preview"
ROWS, RESULT = "rows", queries.RESULT
"""Folders: of the samples, and of what is kept."""
TEXT_LENGTH = 20_000
"""Of what code says of its own failure."""
NOT_MADE = "The committed code of this branch does not make this dataset."
NOT_PUBLISHED = "The commit that was looked at has no published JobSpecs, so there is nothing to compare with."
NOT_WRITTEN = "The committed code has written nothing to this dataset from these rows."


class _Withdrawn(Exception):
    """Nobody wants the preview any more."""


class _Failed(Exception):
    """Nothing more comes of the preview, for its code's own fault."""

    def __init__(self, message: str, *, code: str, problems: Sequence[CodeError] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.problems = problems


def start_preview(
    *,
    repository: Repository,
    branch: str,
    file: str,
    drafts: Sequence[FileDraft],
    by: Principal,
    head: str = "",
    commit_fields: Mapping[str, str] | None = None,
) -> CodePreview:
    """Let a preview wait for a worker; call it with what was typed.

    Args:
        repository: whose code it is.
        branch: as which inputs are read.
        file: whose transforms are run.
        drafts: files that differ from the commit that was looked at.
        by: who asks; they see rows as they may.
        head: the commit that was looked at; the newest of the branch where it is left out.
        commit_fields: what the editor's form says of the commit to come.

    Raises:
        InvalidInput: there are too many files, or it is no file of Python.
        PermissionDenied: they may not write to the repository, so that they may not run code either.
        TooManyRequests: too many are not over yet.

    """
    permissions.check_write(by, repository)
    newest = repositories.get_head(repository, branch)
    head = repositories.get_commit(repository, head).sha if head else newest
    _check_size(file, drafts)
    for draft in drafts:
        check_draft(draft)
    CodePreview.objects.check_own_room(by.user_id, most=MOST_OWN, noun="previews")
    CodePreview.objects.check_room(most=MOST_WAITING, noun="previews")
    with transaction.atomic():
        preview = CodePreview.objects.create(
            repository=repository,
            by_id=by.user_id,
            branch=branch,
            head=head,
            file=file,
            drafts=[asdict(draft) for draft in drafts],
            commit_fields=dict(commit_fields or {}),
        )
        detail = {"preview": preview.pk, "file": file, "head": head, "changed": [draft.target for draft in drafts]}
        record_audit(by=by, verb="preview_code", object=repository.name, branch=branch, detail=detail)
        _ring(preview)
    return preview


def _check_size(file: str, drafts: Sequence[FileDraft]) -> None:
    if not file.endswith(SUFFIX):
        message = f"A preview runs the transforms of a file of Python; {file or 'this file'} is none."
        raise InvalidInput(message, code="not_python", errors={"file": [message]})
    if len(drafts) > MOST_FILES:
        message = f"A preview has at most {MOST_FILES} changed files; these are {len(drafts)}."
        raise InvalidInput(message, code="too_many_files", errors={"files": [message]})
    signs = sum(len(draft.text) for draft in drafts)
    if signs > MOST_SIGNS:
        message = f"The changed files of a preview have at most {MOST_SIGNS:,} signs together; these have {signs:,}."
        raise InvalidInput(message, code="too_large", errors={"files": [message]})


def _ring(preview: CodePreview) -> None:
    transaction.on_commit(lambda: doorbell.ring(RUN_TASK, queue=QUEUE, id=preview.pk))


def cancel_preview(*, preview: CodePreview, by: Principal) -> None:
    """Stop a preview that waits or runs; its worker notices within a moment. One that is over stays as it is."""
    with transaction.atomic():
        message = f"{by.username} stopped the preview."
        _end(CodePreview.objects.filter(pk=preview.pk), to=PreviewState.CANCELLED, error=message)
        record_audit(by=by, verb="cancel_preview", object=preview.repository.name, branch=preview.branch)


def _end(rows: PreviewRows, *, to: PreviewState, **values: Any) -> int:
    """Bring a preview to its end; return whether it was not over yet."""
    return rows.move(to=to, finished_at=clock.now(), step="", **values)


def note_rows(*, preview: CodePreview, by: Principal) -> None:
    """Count a look at what came of a preview as a read of each dataset that it comes from."""
    for table in preview.tables:
        note_reading(by=by, verb="read_rows", object=table["path"], branch=table["branch"])


def sweep_previews() -> int:
    """Ring again for what waits too long, and take over what a dead worker held."""
    taken_over = _take_over_lost_previews() if turns.begin() else 0
    ring_forgotten(CodePreview.objects.order_by("created_at"), _ring, queue=QUEUE)
    return taken_over


def _take_over_lost_previews() -> int:
    lost = CodePreview.objects.lost()
    message = "The worker died twice while it ran this preview."
    failed = _end(lost.filter(lost__gte=MAX_LOST), to=PreviewState.FAILED, code="crashed", error=message)
    return failed + lost.retry()


def run_preview(*, preview_id: int) -> None:
    """Run one queued preview to its end. A second worker that rings for it does nothing."""
    preview = CodePreview.objects.free().filter(pk=preview_id).select_related("repository", "by").first()
    if preview is None:
        return
    with SLOTS.taking(preview.by_id) as is_taken:
        if not is_taken or not CodePreview.objects.claim(preview, started_at=clock.now()):
            return
        held = CodePreview.objects.held(preview)
        with settled_failures("The preview could not be run", held, give_up=partial(_give_up, held)):
            _run(preview, held)
    following = next(SLOTS.in_turn(CodePreview.objects.free().order_by("created_at"), user="by"), None)
    if following is not None:
        _ring(following)


def _give_up(held: PreviewRows, error: AppError) -> None:
    def fail() -> int:
        return _end(held, to=PreviewState.FAILED, code=error.code, error=error.detail)

    keep_trying(fail, seconds=PATIENCE_S)


def _run(preview: CodePreview, held: PreviewRows) -> None:
    wait_for_room()
    folder = queries.result_folder(preview)
    remove_folder(folder)
    make_open_folder(folder)
    attempt = _PreviewAttempt(preview, held, folder)
    try:
        attempt.run()
    except _Withdrawn:
        remove_folder(folder)
    except _Failed as error:
        summary = {"problems": [asdict(problem) for problem in error.problems], **attempt.summary}
        _end(held, to=PreviewState.FAILED, code=error.code, error=str(error), summary=summary)
    finally:
        remove_folder(attempt.work)


class _PreviewAttempt:
    """One run of a preview by one worker."""

    def __init__(self, preview: CodePreview, held: PreviewRows, folder: Path) -> None:
        self.preview = preview
        self.repository = preview.repository
        self.held = held
        self.folder = folder
        self.work = folder / "work"
        """Removed at the end: the code, the samples, and what was written from them."""
        self.summary: dict[str, Any] = {}
        if preview.by is None:
            message = "Whoever asked for this preview is not there any more."
            raise Conflict(message, code="no_person")
        self.reader = accounts.principal_for_user(preview.by)

    def run(self) -> None:
        """Run it to its end, which is written down.

        Raises:
            _Failed: the code can be mended.
            _Withdrawn: somebody has stopped it.
            AppError: it cannot be run.

        """
        root = self._make_tree()
        chosen, rules = self._import(root)
        committed, why_not = self._find_committed(chosen)
        samples = self._take_samples(chosen, committed)
        functions = [spec.function for spec in chosen.specs]
        after = self._run_code("after", root, functions, chosen.outputs, samples, log="log")
        before = self._run_committed(committed, samples)
        outputs = self._describe(after, before, rules=rules, why_not=why_not)
        skipped = [{"function": function, "reason": why} for function, why in chosen.skipped]
        self.summary = {"outputs": outputs, "skipped": skipped}
        if after.failures:
            error = after.failures[0].error
            problems = [
                CodeError(failure.error.file[:1000], max(0, failure.error.line), failure.error.message[:TEXT_LENGTH])
                for failure in after.failures
            ]
            raise _Failed(error.message[:TEXT_LENGTH], code="transform_failed", problems=problems)
        _end(self.held, to=PreviewState.READY, summary={"problems": [], **self.summary})

    # --- code -------------------------------------------------------------------------------------

    def _make_tree(self) -> Path:
        """Lay the files out as a commit of the drafts would have them."""
        root = self.work / "tree"
        exported = trees.export(repository=self.repository, sha=self.preview.head)
        # Files of the exported commit are shared, not copied; drafts replace some of them.
        shutil.copytree(exported, root, copy_function=os.link)
        drafts = queries.list_drafts(self.preview)
        write_drafts(drafts, repository=self.repository, head=self.preview.head, folder=root)
        return root

    def _import(self, root: Path) -> tuple[Chosen, dict[str, DatasetRules]]:
        """Return what is to be run, and how rows of datasets are compared."""
        self._enter(states.IMPORTING)
        folder = self.work / "import"
        make_open_folder(folder)
        result = publication.import_tree(root=root, folder=folder, held=self.held)
        if not self.held.is_running():
            raise _Withdrawn
        problems = result.errors or tuple(publication.check_result(repository=self.repository, result=result))
        if problems:
            raise _Failed("The code cannot be published as it stands.", code="not_published", problems=problems)
        chosen = choose_transforms(result.jobspecs, file=self.preview.file)
        if not chosen.specs:
            why = chosen.skipped[0][1] if chosen.skipped else f"{self.preview.file} declares no transform."
            raise _Failed(why, code="spark" if chosen.skipped else "no_transform")
        return chosen, {rules.path: rules for rules in result.datasets}

    def _find_committed(self, chosen: Chosen) -> tuple[list[PublishedSpec], str]:
        """Return the transforms of the committed code that make the same datasets, and what is to be said of the others."""
        specs = PublishedSpec.objects.filter(
            repository=self.repository, branch=self.preview.branch, sha=self.preview.head
        )
        if not specs.exists():
            return [], NOT_PUBLISHED
        # What has no colon in its name is a seed: no code makes it.
        same = specs.filter(profile="light", function__contains=":", outputs__path__in=chosen.outputs)
        return list(same.distinct().prefetch_related("outputs")), NOT_MADE

    # --- rows -------------------------------------------------------------------------------------

    def _take_samples(self, chosen: Chosen, committed: list[PublishedSpec]) -> list[SampledInput]:
        """Take the first rows of all inputs, by the rights of who asks."""
        pinned = self._pin(chosen.inputs)
        for spec in list(committed):
            more = sorted(spec.declared_inputs - {table["path"] for table in pinned})
            try:
                pinned += self._pin(more)
            except AppError:
                committed.remove(spec)  # nothing can be compared with it
        self._enter(states.SAMPLING, tables=pinned)
        folder = self.work / "sample"
        # The rows alone are shown to the code: the request has keys to files in it.
        make_open_folder(folder / ROWS)
        folder.chmod(0o777)
        tables, readable = [], set()
        for number, table in enumerate(pinned):
            dataset = self._get_dataset(table["path"])
            view = read_metadata(dataset, branch=table["branch"], transaction=self._find_pinned(table))
            sampled = SampledTable(
                path=table["path"],
                metadata_location=_write_view(folder / f"{number}.metadata.json", view),
                file=str(folder / ROWS / f"{number}.arrow"),
                io=catalog.file_properties(table=dataset.table, who=f"preview-{self.preview.pk}"),
                masked=tuple(table["masked"]),
            )
            tables.append(sampled)
            readable.add(locate(dataset)[1])
        message = TakeSamplesRequest(tuple(tables), str(folder / ANSWER), SAMPLE_ROWS, SAMPLE_BYTES)
        end = self._launch("sample", message, folder, readable=sorted(readable - {""}), hosts=find_hosts(()))
        result = read_result(end, folder, noun=NOUN, limits=LIMITS, time_limit_s=TIME_LIMIT_S)
        if result.status == "failed":
            raise _Failed(result.message, code=result.code or "crashed")
        pinned = [{**table, **result.summary[table["path"]]} for table in pinned]
        self._enter(states.RUNNING_NEW, tables=pinned)
        return [
            SampledInput(table["path"], table["branch"], table["transaction"], sampled.file)
            for table, sampled in zip(pinned, tables, strict=True)
        ]

    def _pin(self, paths: Sequence[str]) -> list[dict[str, Any]]:
        """Return the newest transaction of each dataset that readers of the branch see, and what of it is hidden."""
        if not paths:
            return []
        named = find_tables(self.reader, self.repository, branch=self.preview.branch, names=paths)
        return [
            {
                "path": table.path,
                "branch": table.branch,
                "transaction": table.transaction,
                "masked": list(table.masked),
                "rows": None,
                "is_whole": None,
            }
            for table in named.tables
        ]

    def _get_dataset(self, path: str) -> Dataset:
        dataset = datasets.find_dataset(path)
        if dataset is None:
            message = f"{path} is not there any more."
            raise _Failed(message, code="expired")
        return dataset

    def _find_pinned(self, table: Mapping[str, Any]) -> Transaction | None:
        pinned = datasets.find_transaction(table["transaction"])
        if pinned is None and table["transaction"]:
            message = f"{table['path']}: transaction {table['transaction']} on branch {table['branch']} is gone."
            raise _Failed(message, code="expired")
        return pinned

    # --- runs -------------------------------------------------------------------------------------

    def _run_code(
        self,
        name: str,
        root: Path,
        functions: Sequence[str],
        outputs: Sequence[str],
        samples: Sequence[SampledInput],
        *,
        log: str = "",
    ) -> _CodeRun:
        """Run transforms where they see samples and nothing else."""
        folder = self.work / name
        make_open_folder(folder)
        targets = [PreviewOutput(path, str(folder / f"{number}.parquet")) for number, path in enumerate(outputs)]
        message = RunPreviewRequest(
            root=str(root),
            functions=tuple(functions),
            inputs=tuple(samples),
            outputs=tuple(targets),
            branch=self.preview.branch,
            result_path=str(folder / ANSWER),
            row_limit=OUTPUT_ROWS,
            byte_limit=OUTPUT_BYTES,
        )
        readable = [str(root), str(self.work / "sample" / ROWS)]
        end = self._launch("preview", message, folder, readable=readable, log=log)
        failure = explain_end(end, noun=NOUN, limits=LIMITS, time_limit_s=TIME_LIMIT_S)
        if failure is None:
            try:
                result = read_answer(PreviewResult, folder / ANSWER)
            except ProtocolError as error:
                failure = explain_silence(end, error, noun=NOUN)
            else:
                return _CodeRun(
                    files={target.path: target.file for target in targets},
                    written={output.path: output for output in result.outputs},
                    failures=result.failures,
                )
        raise _Failed(failure.message, code=failure.code or "crashed")

    def _run_committed(self, specs: Sequence[PublishedSpec], samples: Sequence[SampledInput]) -> _CodeRun | str:
        """Run the committed code over the same rows; where it cannot be run, return why."""
        if not specs:
            return ""
        self._enter(states.RUNNING_OLD)
        root = trees.export(repository=self.repository, sha=self.preview.head)
        outputs = [output.path for spec in specs for output in spec.outputs.all()]
        try:
            return self._run_code("before", root, [spec.function for spec in specs], outputs, samples)
        except _Failed as error:
            return f"The committed code came to nothing over these rows: {error}"

    # --- what came of it --------------------------------------------------------------------------

    def _describe(
        self, after: _CodeRun, before: _CodeRun | str, *, rules: Mapping[str, DatasetRules], why_not: str
    ) -> list[dict[str, Any]]:
        """Return what was written, by dataset, each with what it is compared with or why with nothing."""
        self._enter(states.DESCRIBING)
        folder = self.folder / RESULT
        make_open_folder(folder)
        tables, more = [], []
        for number, (path, output) in enumerate(after.written.items()):
            if path not in after.files:
                raise _Failed(
                    f"The preview says that it has written to {path[:400]}, which it may not.", code="crashed"
                )
            committed = before.written.get(path) if isinstance(before, _CodeRun) else None
            own = rules.get(path, DatasetRules(path))
            schema, view = self._find_current(path, folder / f"{number}.metadata.json")
            table = PreviewedTable(
                path=path,
                after=after.files[path],
                before=before.files.get(path, "") if committed is not None and isinstance(before, _CodeRun) else "",
                metadata_location=view,
                is_append=output.is_append,
                is_cut=output.is_cut or (committed is not None and committed.is_cut),
                key=own.key,
                ignore=own.ignore,
            )
            tables.append(table)
            more.append({"before_schema": schema, "why_not_compared": _explain_not_compared(path, before, why_not)})
        if not tables:
            return []
        message = DescribePreviewRequest(
            tuple(tables), str(folder), str(folder / ANSWER), row_limit=OUTPUT_ROWS, byte_limit=OUTPUT_BYTES
        )
        readable = [str(place) for name in ("after", "before") if (place := self.work / name).exists()]
        end = self._launch("describe", message, folder, readable=readable)
        result = read_result(end, folder, noun=NOUN, limits=LIMITS, time_limit_s=TIME_LIMIT_S)
        if result.status == "failed":
            raise _Failed(result.message, code=result.code or "crashed")
        return [{**output, **facts} for output, facts in zip(result.summary["outputs"], more, strict=True)]

    def _find_current(self, path: str, place: Path) -> tuple[Mapping[str, Any] | None, str]:
        """Return the schema that the branch has of a dataset now, and where its metadata is written; nothing without one."""
        dataset = datasets.find_dataset(path)
        if dataset is None or not can_dataset(self.reader, path, "read"):
            return None, ""
        chain = (self.preview.branch, *datasets.get_fallback_chain(path=path, branch=self.preview.branch))
        shown = datasets.resolve_view(dataset, chain)
        if shown is None:
            return None, ""
        metadata = read_metadata(dataset, branch=shown[0], transaction=shown[1])
        return current_schema(metadata), _write_view(place, metadata)

    # --- processes --------------------------------------------------------------------------------

    def _launch(
        self,
        entrypoint: str,
        message: object,
        folder: Path,
        *,
        readable: Sequence[str],
        hosts: Sequence[str] = (),
        log: str = "",
    ) -> ProcessEnd:
        """Run a process that writes into one folder, and wait for its end."""
        manifest = folder / "request.json"
        write_message(manifest, message)
        manifest.chmod(0o644)
        sandbox = Sandbox(readonly=readable, writable=[str(folder)], hosts=hosts)
        log_path = self.folder / log if log else self.work / f"{folder.name}.log"
        try:
            process = launch(entrypoint, manifest, sandbox=sandbox, limits=LIMITS, log_path=log_path, cwd=str(folder))
            with closing(process):
                end = watch(process, seconds=TIME_LIMIT_S, look=self.held.is_running, beat=self.held.renew)
        finally:
            manifest.unlink(missing_ok=True)
        if end.ending is Ending.WITHDRAWN:
            raise _Withdrawn
        if end.ending is Ending.LOST:
            message = "The job runner died, and the preview with it."
            raise PartLost(message, code="runner_down")
        return end

    def _enter(self, step: str, **values: Any) -> None:
        """Say what is being done."""
        if not self.held.renew(step=step, **values):
            raise _Withdrawn


@dataclass(frozen=True)
class _CodeRun:
    """What some transforms have written."""

    files: Mapping[str, str]
    """By dataset, where its rows were to go."""
    written: Mapping[str, PreviewedOutput]
    failures: Sequence[PreviewFailure]


def _explain_not_compared(path: str, before: _CodeRun | str, why_not: str) -> str:
    """Return why there is nothing to compare an output with; empty where there is something."""
    if isinstance(before, str):
        return before or why_not
    if path in before.written:
        return ""
    if path not in before.files:
        return NOT_MADE
    if before.failures:
        return f"The committed code fails over these rows: {before.failures[0].error.message[:TEXT_LENGTH]}"
    return NOT_WRITTEN


def _write_view(place: Path, metadata: Mapping[str, Any]) -> str:
    """Write metadata where a process reads it; return where that is."""
    place.write_text(json.dumps(metadata))
    place.chmod(0o644)
    return str(place)


def prune_previews() -> int:
    """Remove previews with what came of them once they are old, and folders that no preview has any more."""
    old = CodePreview.objects.filter(created_at__lt=clock.cautious_now() - KEPT, state__in=PreviewState.ends())
    count = old.order_by("created_at").prune(queries.result_folder)
    present = {str(number) for number in CodePreview.objects.values_list("pk", flat=True)}
    for folder in queries.previews_folder().glob("*"):
        if folder.name not in present:
            remove_folder(folder)
    return count
