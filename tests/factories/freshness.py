"""Whether transforms are out of date after a change, and whether their answers changed: each by really running them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
FOLDER, PROGRAM = "<folder>", "<program>"
"""Stand for a folder with a file in it, and for a file `x` that may be executed."""


@dataclass
class Tree:
    """The published files of a repository, whose transforms run when their answers are asked for."""

    root: Path
    specs: Mapping[str, JobSpec]
    """By output."""
    _runs: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def digests(self) -> dict[str, str]:
        """Return output → digest of its transform."""
        return {path: spec.digest for path, spec in self.specs.items()}

    def answer(self, path: str) -> str:
        """Return what the transform of an output wrote, as text."""
        return self._run(path)[0]

    def list_used(self, path: str) -> tuple[str, ...]:
        """Return the keys of the files that the transform of an output used while it ran."""
        return self._run(path)[1]

    def _run(self, path: str) -> tuple[str, tuple[str, ...]]:
        if path not in self._runs:
            self._runs[path] = run_transform(self.root, self.specs[path])
        return self._runs[path]


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


def publish_tree(folder: Path, files: Mapping[str, str]) -> Tree:
    """Publish the files of a repository."""
    plain = {f"{path}/inner" if text == FOLDER else path: text for path, text in files.items()}
    root = make_repository(folder, {path: "x" if text == PROGRAM else text for path, text in plain.items()})
    for path, text in plain.items():
        (root / path).chmod(0o755 if text == PROGRAM else 0o644)

    def import_all() -> tuple[JobSpec, ...]:
        os.chdir(root)
        result = publish(root)
        assert result.errors == (), result.errors
        return result.jobspecs

    return Tree(root, {spec.outputs[0].path: spec for spec in in_child(import_all)})


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


def list_stale(before: Tree, after: Tree) -> set[str]:
    """Return the outputs that a build would make again after a change; those that are new are left out."""
    files = [Files(tree.root) for tree in (before, after)]
    return {
        path
        for path, digest in before.digests.items()
        if path in after.specs
        and (
            digest != after.digests[path]
            or any(files[0].fingerprint(key) != files[1].fingerprint(key) for key in before.list_used(path))
        )
    }


def list_changed(before: Tree, after: Tree) -> set[str]:
    """Return the outputs whose answers differ."""
    return {path for path in before.specs if path in after.specs and before.answer(path) != after.answer(path)}


def list_wrong(before: Tree, after: Tree) -> set[str]:
    """Return the outputs whose answers differ though a build would not make them again."""
    both = before.specs.keys() & after.specs.keys()
    return {path for path in both - list_stale(before, after) if before.answer(path) != after.answer(path)}


class _Out:
    def __init__(self, written: list[object]) -> None:
        self._written = written

    def write(self, value: object) -> None:
        self._written.append(value)
