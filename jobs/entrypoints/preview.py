"""RunPreviewRequest → PreviewResult: transforms that are not committed, run over samples. No table and no catalog is in reach."""

from __future__ import annotations

import importlib
from pathlib import Path

from jobs.entrypoints.run import call_function
from jobs.entrypoints.usercode import describe_job_error, prepare_imports
from jobs.protocol import (
    JobError,
    JobManifest,
    PreviewedOutput,
    PreviewFailure,
    PreviewResult,
    RunPreviewRequest,
    read_message,
    write_message,
)
from jobs.transforms.context import Connections, TransformContext, say
from jobs.transforms.declare import Transform, list_declared, name_functions
from jobs.transforms.errors import TransformError
from jobs.transforms.sampled import PreviewedInput, PreviewedRows


def main(path: str) -> int:
    """Run what the request in the file at `path` names, one after the other; one that fails ends none of the others."""
    request = read_message(RunPreviewRequest, path)
    root = Path(request.root).resolve()
    prepare_imports(root)
    outputs: list[PreviewedOutput] = []
    failures: list[PreviewFailure] = []
    for function in request.functions:
        try:
            outputs += run(request, function)
        except MemoryError as error:
            placed = describe_job_error(error, root)
            message = "out of memory: a preview may take less than a build; build the transform on a branch"
            failures.append(_fail(function, JobError(message, placed.file, placed.line, "", "MemoryError")))
        except BaseException as error:
            failures.append(_fail(function, describe_job_error(error, root)))
    write_message(request.result_path, PreviewResult(tuple(outputs), tuple(failures)))
    return 1 if failures else 0


def run(request: RunPreviewRequest, function: str) -> list[PreviewedOutput]:
    """Run one transform; return what it has written."""
    transform = _find_transform(function)
    samples = {sample.path: sample for sample in request.inputs}
    targets = {target.path: target for target in request.outputs}
    missing = [declared.path for declared in transform.inputs.values() if declared.path not in samples]
    missing += [declared.path for declared in transform.outputs.values() if declared.path not in targets]
    if missing:
        raise TransformError(f"{function} names {missing[0]}, which it did not when its module was imported before")
    say(f"preview of {function}")
    connections = Connections(_make_manifest(request, function))
    inputs = {
        name: PreviewedInput(name, samples[declared.path], connections) for name, declared in transform.inputs.items()
    }
    outputs = {
        name: PreviewedRows(
            targets[declared.path],
            connections,
            name=name,
            row_limit=request.row_limit,
            byte_limit=request.byte_limit,
        )
        for name, declared in transform.outputs.items()
    }
    if transform.is_incremental:
        say("a preview reads its inputs from the start: nothing goes on from an earlier build")
    call_function(transform, {**inputs, **outputs}, TransformContext(connections, is_incremental=False))
    for output in outputs.values():
        if not output.is_written:
            say(f"warning: the transform wrote nothing to {output.path}")
    return [output.describe() for output in outputs.values() if output.is_written]


def _find_transform(function: str) -> Transform:
    module = function.partition(":")[0]
    importlib.import_module(module)
    transform = name_functions(list_declared()).get(function)
    if transform is None:
        raise TransformError(f"{module} declares no transform {function}")
    return transform


def _make_manifest(request: RunPreviewRequest, function: str) -> JobManifest:
    """Return what `ctx` tells from; there is no catalog behind it."""
    return JobManifest(
        job_id="preview",
        root=request.root,
        function=function,
        catalog_uri="",
        token="",
        branch=request.branch,
        build_branch=request.branch,
        inputs=(),
        outputs=(),
        result_path=request.result_path,
    )


def _fail(function: str, error: JobError) -> PreviewFailure:
    place = f"{error.file}:{error.line} " if error.file else ""
    say(f"Error: {place}{error.message}")
    for line in error.traceback.splitlines():
        say(line)
    return PreviewFailure(function, error)
