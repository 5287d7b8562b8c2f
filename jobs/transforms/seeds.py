"""Seeds: files below `seeds` that are the whole of one dataset each, kept in Git beside the code.

`seeds/nyc/carriers.csv` makes `/nyc/carriers`: the path below the folder is the dataset's. A seed is a transform without
inputs, so it is published, built, compared and merged like any other; its digest is that of its bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from jobs import lfs
from jobs.protocol import CodeError, JobSpec, OutputSpec
from jobs.transforms.context import say
from jobs.transforms.declare import TableOutput, Transform, check_path
from jobs.transforms.errors import DeclarationError, TransformError

if TYPE_CHECKING:
    from jobs.engine.read.files import Format
    from jobs.engine.read.opened import OpenedFile
    from jobs.transforms.outputs import IcebergOutput

FOLDER = "seeds"
FORMATS: Mapping[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}
OUTPUT = "out"
FORMAT = "1"


@dataclass(frozen=True)
class Seed:
    """One file and the dataset that it is."""

    file: Path
    name: str
    """The file's path in the repository, which stands where other JobSpecs name a function."""
    dataset: str
    types: Mapping[str, str]
    """Column → Iceberg type; the others' types come from the whole file."""

    def describe(self) -> JobSpec:
        """Return its JobSpec."""
        return JobSpec(
            function=self.name,
            file=self.name,
            line=1,
            inputs=(),
            outputs=(OutputSpec(OUTPUT, self.dataset, ()),),
            digest=self._compute_digest(),
            description=f"The rows of {self.name}",
        )

    def as_transform(self) -> Transform:
        """Return what a job of it runs."""

        def write_seed(out: IcebergOutput) -> None:
            self._write(out)

        return Transform(write_seed, {OUTPUT: TableOutput(self.dataset)}, "light")

    def _compute_digest(self) -> str:
        with self.file.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256(repr((FORMAT, self.dataset, sorted(self.types.items()), content)).encode()).hexdigest()

    def _write(self, out: IcebergOutput) -> None:
        from jobs.engine.read.opened import FileError  # DuckDB, in jobs of seeds alone

        try:
            with self._open() as source:
                for sentence in source.warnings.sentences():
                    say(f"warning: {sentence}")
                out.write_table(pa.RecordBatchReader.from_batches(source.schema, source.batches()))
                out.set_columns(source.describe(out.load().schema()))
        except FileError as error:
            raise TransformError(f"{self.name}: {error}") from None

    def _open(self) -> OpenedFile:
        from jobs.engine.read.files import open_file
        from jobs.engine.read.opened import CsvFormat

        return open_file(self.file, FORMATS[self.file.suffix], CsvFormat(types=self.types))


def list_seeds(root: Path, types: Mapping[str, Mapping[str, str]]) -> tuple[list[Seed], list[CodeError]]:
    """List the seeds of a repository, and the files that cannot be one.

    Args:
        root: the repository's folder.
        types: dataset → column → Iceberg type, from pipeline.toml.

    """
    seeds, errors = [], []
    for file in _list_files(root / FOLDER):
        name = file.relative_to(root).as_posix()
        if lfs.is_pointer(file):
            errors.append(CodeError(name, 1, lfs.EXPLANATION))
            continue
        try:
            seeds.append(_read_seed(file, name, types))
        except DeclarationError:
            example = f"{FOLDER}/nyc/carriers.csv makes /nyc/carriers"
            errors.append(CodeError(name, 1, f"a seed's path is that of its dataset: {example}"))
    return seeds, errors


def find_seed(root: Path, name: str, types: Mapping[str, Mapping[str, str]]) -> Seed | None:
    """Return a seed by its name, None where that names a function."""
    file = root / name
    is_seed = name.startswith(f"{FOLDER}/") and file.suffix in FORMATS and file.is_file()
    return _read_seed(file, name, types) if is_seed else None


def _list_files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.suffix in FORMATS and path.is_file())


def _read_seed(file: Path, name: str, types: Mapping[str, Mapping[str, str]]) -> Seed:
    dataset = check_path(name.removeprefix(FOLDER).removesuffix(file.suffix), name)
    return Seed(file, name, dataset, types.get(dataset, {}))
