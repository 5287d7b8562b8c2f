"""One commit's code -> JobSpecs, or errors with file and line. Runs in the sandbox: importing is running."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from jobs.entrypoints.pipeline_file import FILE, Pipeline, read_pipeline
from jobs.entrypoints.usercode import (
    allow_functions_before_session,
    check_package_name,
    describe_failure,
    prepare_imports,
)
from jobs.protocol import (
    CheckSpec,
    CodeError,
    InputSpec,
    JobSpec,
    OutputSpec,
    PublishRequest,
    PublishResult,
    read_message,
    write_message,
)
from jobs.transforms.columns import find_asked, list_words
from jobs.transforms.declare import Transform, list_declared, name_functions
from jobs.transforms.digest import Code, cover, list_modules
from jobs.transforms.fingerprints import Files
from jobs.transforms.interpreter_hooks import start_trace, stop_trace
from jobs.transforms.seeds import FOLDER, FORMATS, Seed, list_seeds

MOST_WORDS = 300_000
"""Of all JobSpecs of a commit."""


def main(manifest: str) -> int:
    """Read a PublishRequest, write a PublishResult."""
    request = read_message(PublishRequest, manifest)
    result = publish(Path(request.root).resolve(), request.packages)
    for error in result.errors:
        print(f"{error.file}:{error.line} error: {error.message}")
    print(f"{len(result.jobspecs)} JobSpecs, {len(result.errors)} errors")
    write_message(request.result_path, result)
    return 0


def publish(root: Path, packages: tuple[str, ...] = ()) -> PublishResult:
    """Import every module of the repository's packages and describe the transforms they declare."""
    root = root.resolve()
    pipeline, errors = read_pipeline(root)
    errors += list(_check_packages(pipeline, root))
    seeds, refused = list_seeds(root, pipeline.seed_types)
    errors += [*refused, *_check_seed_types(pipeline, seeds, root)]
    if errors:
        return PublishResult(errors=tuple(errors))
    prepare_imports(root)
    if any(b"pyspark" in path.read_bytes() for _, path in list_modules(root, pipeline.packages)):
        allow_functions_before_session()
    chosen = packages or pipeline.packages
    modules = list(list_modules(root, chosen))
    trace = start_trace(str(root))
    for module, path in modules:
        if (error := _import(module, path, root)) is not None:
            errors.append(error)
    stop_trace()
    jobspecs: tuple[JobSpec, ...] = ()
    prints: dict[str, str] = {}
    if not errors:
        # syntax is many small objects, none of which is garbage before the end
        gc.disable()
        code = Code(Files(root), trace)
        declared = [entry for entry in list_declared() if trace.find_path(entry.declared_in) is not None]
        errors += _find_twins(declared, root)
        named = name_functions(declared)
        jobspecs = tuple(describe_transform(name, entry, root, code) for name, entry in named.items())
        jobspecs += tuple(seed.describe() for seed in seeds)
        errors += [*_find_duplicates(jobspecs), *_find_cycle(jobspecs)]
        jobspecs = tuple(_limit_words(jobspecs))
        prints = code.files.fingerprint_modules()
    return PublishResult(
        jobspecs=() if errors else tuple(sorted(jobspecs, key=lambda spec: spec.function)),
        errors=tuple(errors),
        packages=chosen,
        folders=pipeline.folders,
        datasets=pipeline.datasets,
        code={} if errors else prints,
    )


def describe_transform(name: str, transform: Transform, root: Path, code: Code) -> JobSpec:
    """Return the JobSpec of a declared transform."""
    covered = cover(transform, code)
    return JobSpec(
        function=name,
        file=str(Path(transform.declared_in).relative_to(root)),
        line=transform.line,
        profile=transform.profile,
        size=transform.size,
        inputs=tuple(
            InputSpec(key, declared.path, declared.branch, *find_asked(covered.function, key))
            for key, declared in transform.inputs.items()
        ),
        outputs=tuple(
            OutputSpec(
                key,
                output.path,
                tuple(CheckSpec(check.name, check.expectation.describe(), check.on_error) for check in output.checks),
            )
            for key, output in transform.outputs.items()
        ),
        digest=covered.digest,
        incremental=transform.is_incremental,
        description=transform.description,
        words=list_words(covered),
        covers=covered.keys,
        why_all=covered.why_all,
    )


def _limit_words(jobspecs: tuple[JobSpec, ...]) -> Iterator[JobSpec]:
    """Leave the words of the last ones out where all of them would be more than a message holds."""
    count = 0
    for spec in jobspecs:
        count += len(spec.words or ())
        yield replace(spec, words=None) if count > MOST_WORDS else spec


def _check_packages(pipeline: Pipeline, root: Path) -> Iterator[CodeError]:
    for package in pipeline.packages:
        place = root.joinpath(*package.split("."))
        problem = check_package_name(package)
        if problem is None and not place.is_dir() and not place.with_name(f"{place.name}.py").is_file():
            if pipeline.packages == Pipeline.packages:
                continue  # a repository that has no transforms yet
            problem = f"there is no package {package!r} in this repository"
        if problem is not None:
            yield CodeError(FILE, _line_of(root / FILE, package), f"[pipeline] packages: {problem}")


def _check_seed_types(pipeline: Pipeline, seeds: list[Seed], root: Path) -> Iterator[CodeError]:
    paths = {seed.dataset for seed in seeds}
    for path in pipeline.seed_types:
        if path not in paths:
            message = f'[seeds."{path}"]: there is no file {FOLDER}{path} with one of {", ".join(FORMATS)}'
            yield CodeError(FILE, _line_of(root / FILE, f'seeds."{path}"'), message)


def _line_of(path: Path, text: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return next((number for number, line in enumerate(lines, 1) if text in line), 1)


def _import(module: str, path: Path, root: Path) -> CodeError | None:
    try:
        importlib.import_module(module)
    except BaseException as error:
        return describe_failure(error, root, fallback=str(path.relative_to(root)))
    loaded = getattr(sys.modules[module], "__file__", None) or ""
    if os.path.realpath(loaded) != os.path.realpath(path):
        return CodeError(
            str(path.relative_to(root)), 1, f"a module of another library is named {module!r}: rename this one"
        )
    return None


def _find_twins(declared: list[Transform], root: Path) -> Iterator[CodeError]:
    """Report transforms with the same name and output, which no name tells apart."""
    places: dict[tuple[str, str, str], Transform] = {}
    for entry in declared:
        path = min(output.path for output in entry.outputs.values())
        first = places.setdefault((entry.module, entry.name, path), entry)
        if first is not entry:
            file = str(Path(entry.declared_in).relative_to(root))
            message = (
                f"two transforms write {path}: {entry.name} ({file}:{first.line}) and {entry.name}; a dataset has one"
            )
            yield CodeError(file, entry.line, message)


def _find_duplicates(jobspecs: tuple[JobSpec, ...]) -> Iterator[CodeError]:
    writers: dict[str, JobSpec] = {}
    for spec in jobspecs:
        for output in spec.outputs:
            first = writers.setdefault(output.path, spec)
            if first is not spec:
                yield CodeError(
                    spec.file,
                    spec.line,
                    f"two transforms write {output.path}: {_short(first)} ({first.file}:{first.line}) and "
                    f"{_short(spec)}; a dataset has one",
                )


def _find_cycle(jobspecs: tuple[JobSpec, ...]) -> Iterator[CodeError]:
    """Report the first cycle of datasets, at the transform that closes it."""
    writers = {output.path: spec for spec in jobspecs for output in spec.outputs}
    state: dict[str, int] = {}
    for start in sorted(writers):
        trail = _walk(start, writers, state, [])
        if trail:
            spec = writers[trail[0]]
            yield CodeError(spec.file, spec.line, f"the transforms form a cycle: {' needs '.join(trail)}")
            return


def _walk(path: str, writers: dict[str, JobSpec], state: dict[str, int], trail: list[str]) -> list[str]:
    """Return the cycle that is reached from a dataset: its datasets, the first one again at the end."""
    pending: list[tuple[str, Iterator[str]]] = []

    def enter(dataset: str) -> None:
        state[dataset] = 1
        trail.append(dataset)
        inputs = writers[dataset].inputs if dataset in writers else ()
        pending.append((dataset, iter(sorted(input_spec.path for input_spec in inputs))))

    if state.get(path):
        return []
    enter(path)
    while pending:
        dataset, inputs = pending[-1]
        following = next(inputs, None)
        if following is None:
            state[dataset] = 2
            trail.pop()
            pending.pop()
        elif state.get(following) == 1:
            return [*trail[trail.index(following) :], following]
        elif not state.get(following):
            enter(following)
    return []


def _short(spec: JobSpec) -> str:
    return spec.function.rpartition(":")[2]
