"""LoadManifest -> JobResult: files of earlier uploads into one table, in their order, all or nothing, in the sandbox."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from jobs.engine.plan.counts import count_rows
from jobs.engine.read.catalog import open_catalog
from jobs.engine.read.files import FileError
from jobs.entrypoints.upload import APPEND, answer, load_file
from jobs.protocol import JobResult, KeptFile, LoadManifest, OutputResult, read_message
from jobs.transforms.context import say


def main(manifest_path: str) -> int:
    """Read a LoadManifest, load the files, write the JobResult. 0 when it is ok."""
    manifest = read_message(LoadManifest, manifest_path)
    return answer(manifest.result_path, lambda: load(manifest))


def load(manifest: LoadManifest) -> JobResult:
    """Load each file as one snapshot on the staging branch."""
    catalog = open_catalog(uri=manifest.catalog_uri, token=manifest.token, branch=manifest.branch)
    rows, snapshot_id = 0, None
    for number, kept_file in enumerate(manifest.files, start=1):
        _check_bytes(kept_file)
        say(f"file {number} of {len(manifest.files)}, {kept_file.mode}")
        table = catalog.load_table(manifest.table)
        written = load_file(table, kept_file, job_id=manifest.job_id, result_path=manifest.result_path)
        rows, snapshot_id = rows + written.rows, written.snapshot_id
    say(f"wrote {rows:,} rows to {manifest.path} on the staging branch")
    output = OutputResult(
        rows=count_rows(table),
        snapshot_id=snapshot_id,
        added_rows=rows,
        mode="append" if all(kept_file.mode == APPEND for kept_file in manifest.files) else "replace",
    )
    return JobResult("ok", outputs={manifest.path: output})


def _check_bytes(kept_file: KeptFile) -> None:
    """Refuse a file that is not what was loaded, and reviewed, then."""
    with Path(kept_file.file).open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != kept_file.sha256:
            message = "the file that was kept has other bytes than what was loaded on the branch; load it there again"
            raise FileError(message, code="file_changed")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
