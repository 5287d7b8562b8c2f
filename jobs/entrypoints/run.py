"""JobManifest -> JobResult: runs one transform of one commit, in the sandbox."""

from __future__ import annotations

import importlib
import inspect
import signal
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from jobs.engine.failures import is_out_of_memory_beside_spark
from jobs.engine.spark import tables
from jobs.entrypoints.pipeline_file import read_pipeline
from jobs.entrypoints.usercode import (
    allow_functions_before_session,
    describe_job_error,
    prepare_imports,
    ship_modules,
)
from jobs.protocol import MOST_USED, ExpectationResult, JobError, JobManifest, JobResult, read_message, write_message
from jobs.transforms.checking import ArrowSource, StagedSparkSource, run_checks
from jobs.transforms.context import Connections, TransformContext, say
from jobs.transforms.declare import Transform, list_declared
from jobs.transforms.digest import Code, list_missed, may_name_left_out
from jobs.transforms.errors import CheckFailed, TransformError
from jobs.transforms.expectations import Source
from jobs.transforms.fingerprints import Files
from jobs.transforms.inputs import IcebergInput
from jobs.transforms.interpreter_hooks import start_trace, stop_trace
from jobs.transforms.outputs import IcebergOutput
from jobs.transforms.seeds import find_seed
from jobs.transforms.trace import PATHS, TREE, Trace

FAILED = 1


def main(manifest_path: str) -> int:
    """Read a JobManifest, run it, write the JobResult. 0 when it is ok."""
    manifest = read_message(JobManifest, manifest_path)
    connections = Connections(manifest)
    signal.signal(signal.SIGTERM, _stop)
    try:
        result = run(manifest, connections)
    except _Stopped:
        say("stopped")
        return 128 + signal.SIGTERM
    finally:
        connections.close()
    write_message(manifest.result_path, result)
    return 0 if result.status == "ok" else FAILED


class _Stopped(BaseException):
    """The job was asked to end; user code that catches Exception does not keep it."""


def _stop(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise _Stopped


def run(manifest: JobManifest, connections: Connections) -> JobResult:
    """Run the transform and its checks; whatever it raises becomes the result's error."""
    root = Path(manifest.root).resolve()
    checks: list[ExpectationResult] = []
    try:
        transform, trace = load_transform(manifest, root)
        outputs = _call(transform, manifest, connections)
        _say_unwritten(outputs)
        checks = _check(transform, outputs, connections)
        results = {output.path: output.result() for output in outputs.values()}
        used = () if trace is None else list_used(trace, manifest)
    except _Stopped:
        raise
    except CheckFailed as error:
        return JobResult("failed", checks=error.args[1], error=JobError(str(error.args[0]), code="CheckFailed"))
    except MemoryError as error:
        placed = describe_job_error(error, root)
        message = f"out of memory: profile {manifest.size!r} allows no more; see @configure(profile=...)"
        return JobResult("failed", error=JobError(message, placed.file, placed.line, placed.traceback, "MemoryError"))
    except BaseException as error:
        failure = describe_job_error(error, root)
        if is_out_of_memory_beside_spark(error):
            failure = replace(failure, message=connections.explain_python_memory(), code="MemoryError")
        place = f"{failure.file}:{failure.line} " if failure.file else ""
        say(f"Error: {place}{failure.message}")
        for line in failure.traceback.splitlines():
            say(line)
        return JobResult("failed", checks=tuple(checks), error=failure)
    finally:
        stop_trace()
    return JobResult("ok", outputs=results, checks=tuple(checks), used=used)


def load_transform(manifest: JobManifest, root: Path) -> tuple[Transform, Trace | None]:
    """Find the transform that the plan named, and begin to record what it uses; of a seed the digest says all."""
    seed = find_seed(root, manifest.function, read_pipeline(root)[0].seed_types)
    if seed is not None:
        return seed.as_transform(), None
    prepare_imports(root)
    if manifest.profile == "spark":
        allow_functions_before_session()
    trace = start_trace(str(root))
    transform = find_transform(manifest.function, [target.path for target in manifest.outputs])
    trace.is_running = True
    if manifest.profile == "spark":
        ship_modules(root)
    return transform, trace


def list_used(trace: Trace, manifest: JobManifest) -> tuple[str, ...]:
    """Return the keys of all files of the repository that a job used, but for those that its digest covers."""
    stop_trace()
    covered = set(manifest.covers)
    # what the job looks up in a module while it runs may be code that the digest leaves out
    whole = [
        key.replace("part:", "code:", 1) for key in covered if key.removeprefix("part:") not in trace.imported_later
    ]
    keys = ({f"code:{path}" for path in trace.modules} | trace.list_keys()) - covered
    code = Code(Files(Path(manifest.root).resolve()), trace)
    late = [module for key in keys - set(whole) if key.startswith("code:") and (module := code.find(key[5:]))]
    use = code.describe_use(late)
    if use.is_reading_text:
        keys |= {f"file:{path}" for path in trace.modules} - covered
    if use.why_all:
        keys.add(TREE)
    if PATHS not in covered:
        if "glob" in code.list_terms(keys):
            modules = [module for path in trace.modules if (module := code.find(path))]
            use = replace(use, libraries=code.describe_use(modules).libraries)
        keys |= list_missed(use, [statement for module in late for statement in module.statements], keys, code)
    if not may_name_left_out(covered, keys - set(whole), code):
        keys -= set(whole)
    return (TREE,) if TREE in keys or len(keys) > MOST_USED else tuple(sorted(keys))


def find_transform(function: str, outputs: Collection[str]) -> Transform:
    """Import the module that declares a transform and return what writes these outputs.

    Args:
        function: the JobSpec's; it begins with the module's name.
        outputs: paths of datasets. No two transforms share one, and they are the same in whatever order code declares.

    """
    importlib.import_module(function.partition(":")[0])
    matches = [entry for entry in list_declared() if {output.path for output in entry.outputs.values()} == set(outputs)]
    if len(matches) != 1:
        count = "no transform writes" if not matches else f"{len(matches)} transforms write"
        raise TransformError(f"{count} {', '.join(sorted(outputs))} in {function.partition(':')[0]} in this commit")
    return matches[0]


def _call(transform: Transform, manifest: JobManifest, connections: Connections) -> dict[str, IcebergOutput]:
    pinned = {source.name: source for source in manifest.inputs}
    targets = {target.name: target for target in manifest.outputs}
    _check_datasets(transform, manifest)
    inputs = {name: IcebergInput(pinned[name], connections) for name in transform.inputs}
    outputs = {name: IcebergOutput(targets[name], connections) for name in transform.outputs}
    is_incremental = _decide_incremental(transform, manifest, inputs)
    for source in inputs.values():
        source.set_incremental(is_incremental=is_incremental)
    for output in outputs.values():
        output.set_incremental(is_incremental=is_incremental, is_full_build=_is_full_build(manifest))
    call_function(transform, {**inputs, **outputs}, TransformContext(connections, is_incremental=is_incremental))
    return outputs


def _check_datasets(transform: Transform, manifest: JobManifest) -> None:
    """Refuse to run when a parameter stands for another dataset than in the plan."""
    for kind, declared, planned in (
        ("input", {name: source.path for name, source in transform.inputs.items()}, manifest.inputs),
        ("output", {name: output.path for name, output in transform.outputs.items()}, manifest.outputs),
    ):
        expected = {entry.name: entry.path for entry in planned}
        for name in sorted({*declared, *expected}):
            if declared.get(name) != expected.get(name):
                raise TransformError(
                    f"{kind} {name!r} of {manifest.function} is {expected.get(name, 'nothing')} in the plan, but "
                    f"{declared.get(name, 'nothing')} in the code: its declaration must not depend on anything outside "
                    "the commit"
                )


def call_function(transform: Transform, arguments: dict[str, object], context: TransformContext) -> None:
    """Call the function of a transform, with `ctx` where it takes that."""
    if transform.wants_context:
        arguments["ctx"] = context
    returned = transform.function(**arguments)
    if inspect.isawaitable(returned) or inspect.isgenerator(returned):
        raise TransformError("a transform is a plain function: it may neither be async nor yield")


def _is_full_build(manifest: JobManifest) -> bool:
    return not any(source.since_snapshot_id is not None for source in manifest.inputs)


def _decide_incremental(transform: Transform, manifest: JobManifest, inputs: dict[str, IcebergInput]) -> bool:
    if not transform.is_incremental or not manifest.is_incremental:
        return False
    rewritten = [source.path for source in inputs.values() if not source.grew_only()]
    if manifest.why_full:
        decided, why = "full build", manifest.why_full
    elif rewritten:
        # a changelog tells of rewritten rows too
        decided = "inputs are read whole, only changelogs go on from the last build"
        why = f"{rewritten[0]} did not only grow since"
    else:
        return True
    if transform.require_incremental and not manifest.is_first:
        raise TransformError(f"this build cannot be incremental: {why}")
    say(f"{decided}: {why}")
    return False


def _say_unwritten(outputs: dict[str, IcebergOutput]) -> None:
    for output in outputs.values():
        if not output.is_written:
            say(f"warning: the transform wrote nothing to {output.path}, its rows stay as they are")


def _check(
    transform: Transform, outputs: dict[str, IcebergOutput], connections: Connections
) -> list[ExpectationResult]:
    results: list[ExpectationResult] = []
    for name, declared in transform.outputs.items():
        if declared.checks:
            source = _source(outputs[name], transform, connections)
            results += run_checks(declared.path, declared.checks, source, say)
    failed = [result for result in results if not result.passed and result.on_error == "FAIL"]
    if failed:
        first = failed[0]
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise CheckFailed(
            f'expectation "{first.name}" of {first.dataset} failed: {first.message}{more}', tuple(results)
        )
    return results


def _source(output: IcebergOutput, transform: Transform, connections: Connections) -> Source:
    table = output.load()
    masked = connections.manifest.masked.get(output.path, ())
    if connections.manifest.profile == "spark":
        return StagedSparkSource(connections.spark, table, tables.full_name(output.table), masked=masked)
    columns = {
        column
        for declared in transform.outputs.values()
        if declared.path == output.path
        for check in declared.checks
        for column in check.expectation.columns()
    }
    return ArrowSource(table, columns, masked=masked)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
