"""Files of earlier uploads, loaded again only where they are what was loaded then."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.engine.read.opened import FileError
from jobs.entrypoints import upload
from jobs.protocol import StagedFile, UploadManifest


def test_a_file_with_other_bytes_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept"
    file.write_bytes(b"id\n1\n")
    monkeypatch.setattr(upload, "open_catalog", lambda **_fields: None)
    manifest = UploadManifest(
        job_id="job", files=(StagedFile(str(file), "csv", "append", sha256="0" * 64),), path="/shop/raw", table="shop.raw",
        catalog_uri="", token="", branch="_job/job", build_branch="master", result_path="",
    )  # fmt: skip
    with pytest.raises(FileError, match="other bytes than what was loaded on the branch") as caught:
        upload.upload(manifest)
    assert caught.value.code == "file_changed"
