"""Whether transforms are out of date after a change, and whether their answers changed: each by really running them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb  # noqa: F401 - children would import them one after the other
import polars as pl  # noqa: F401

from jobs.entrypoints.publish import publish
from jobs.entrypoints.run import list_used, load_transform
from jobs.protocol import JobManifest, JobSpec, OutputTarget
from jobs.transforms.fingerprints import Files
from tests.factories.code_kinds import HEAD, Kind
from tests.factories.forks import in_child
from tests.factories.jobs import make_repository

DECLARE = '@transform.using(out=TableOutput("/x/t{n}"))\ndef compute{n}(out):\n    out.write({value})\n'
TIDY = (
    ("# nothing\n", ""),
    ("\n\n# a comment\n", "at the end"),
)


@dataclass(frozen=True)
class Ran:
    """What the transforms of one tree are and do."""

    root: Path
    digests: Mapping[str, str]
    answers: Mapping[str, str]
    used: Mapping[str, tuple[str, ...]]


def write_repository(kinds: Iterable[Kind], *, modules: int) -> dict[str, str]:
    """Return the files of a repository with a transform of each kind, spread over some modules."""
    files = {"pipelines/__init__.py": ""}
    for number, kind in enumerate(kinds):
        module = module_of(number, modules)
        files.setdefault(module, HEAD)
        value = kind.value.replace("{n}", str(number))
        declared = (kind.below or DECLARE).replace("{value}", value).replace("{n}", str(number))
        files[module] += "\n" + kind.top.replace("{n}", str(number)) + "\n" + declared
        files |= {
            path.replace("{n}", str(number)): text.replace("{n}", str(number)) for path, text in kind.files.items()
        }
    return files


def module_of(number: int, modules: int) -> str:
    """Return the module in which a transform is declared."""
    return f"pipelines/module{number % modules}.py"


def edit(files: Mapping[str, str], path: str, old: str, new: str) -> dict[str, str]:
    """Return the files with one place changed; a file that is not there is made."""
    assert old in files.get(path, ""), (path, old)
    return {**files, path: files.get(path, "").replace(old, new, 1) if old else new + files.get(path, "")}


def run_tree(folder: Path, files: Mapping[str, str]) -> Ran:
    """Publish a tree and run each of its transforms in a process of its own."""
    root = make_repository(folder, files)

    def import_all() -> tuple[JobSpec, ...]:
        os.chdir(root)
        result = publish(root)
        assert result.errors == (), result.errors
        return result.jobspecs

    specs = in_child(import_all)
    ran = {spec.outputs[0].path: run_transform(root, spec) for spec in specs}
    return Ran(
        root=root,
        digests={spec.outputs[0].path: spec.digest for spec in specs},
        answers={path: answer for path, (answer, _) in ran.items()},
        used={path: used for path, (_, used) in ran.items()},
    )


def run_transform(root: Path, spec: JobSpec) -> tuple[str, tuple[str, ...]]:
    """Run one transform; return what it wrote, as text, and the keys of the files that it used."""
    manifest = JobManifest(
        job_id="job1",
        root=str(root),
        function=spec.function,
        catalog_uri="",
        token="none",
        branch="_job/job1",
        build_branch="b",
        inputs=(),
        outputs=tuple(OutputTarget(output.name, output.path, "t") for output in spec.outputs),
        result_path="",
        covers=spec.covers,
    )

    def work() -> tuple[str, tuple[str, ...]]:
        os.chdir(root)
        written: list[object] = []
        transform, trace = load_transform(manifest, root)
        transform.function(out=_Out(written))
        assert trace is not None
        return repr(written).replace(str(root), ""), list_used(trace, manifest)

    return in_child(work)


def list_stale(before: Ran, after: Ran) -> set[str]:
    """Return the outputs that a build would make again after a change; those that are new are left out."""
    files = [Files(ran.root) for ran in (before, after)]
    return {
        path
        for path, digest in before.digests.items()
        if path in after.digests
        and (
            digest != after.digests[path]
            or any(files[0].fingerprint(key) != files[1].fingerprint(key) for key in before.used[path])
        )
    }


def list_changed(before: Ran, after: Ran) -> set[str]:
    """Return the outputs whose answers differ."""
    return {path for path, answer in before.answers.items() if after.answers.get(path, answer) != answer}


class _Out:
    def __init__(self, written: list[object]) -> None:
        self._written = written

    def write(self, value: object) -> None:
        self._written.append(value)
