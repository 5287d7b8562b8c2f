"""Full disks, real ones: each says what is full, keeps what was there, and works again when there is room."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.factories.builds import HEAD, Stack, make_transform, wait_until
from tests.factories.disks import filled, small_disk
from webapp.builds.runner import manifests

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
BIG = "a,b\n" + "".join(f"{number},{number * 7919 % 100_003}\n" for number in range(400_000))


def folder_of(stack: Stack, name: str) -> Path:
    [found] = (stack.home / "warehouse" / "shop").glob(f"{name}-*")
    return found


def test_no_room_for_the_file_that_is_sent(stack: Stack) -> None:
    assert stack.upload("/shop/full_sent", "a\n1\n").status_code == 201
    for size in ("64k", "7m"):  # full while the request is read, and full while the file is put in its place
        with small_disk(stack.home / "uploads", size=size) as folder:
            refused = stack.upload("/shop/full_sent", BIG)
            assert (refused.status_code, refused.json()["code"]) == (507, "storage_full"), refused.text
            assert "full" in refused.json()["detail"]
            wait_until(lambda folder=folder: not list(folder.iterdir()), seconds=2)
            assert stack.upload("/shop/full_sent", "a\n2\n").status_code == 201
    assert stack.rows("/shop/full_sent") == [{"a": 2}]
    assert stack.open_transactions() == []


def test_no_room_for_a_tables_data(stack: Stack) -> None:
    assert stack.upload("/shop/full_data", "a,b\n1,2\n").status_code == 201
    stack.call("GET", "/builds")
    with small_disk(folder_of(stack, "full_data") / "data", size="64k") as folder:
        refused = stack.upload("/shop/full_data", BIG)
        assert (refused.status_code, refused.json()["code"]) == (507, "storage_full"), refused.text
        assert stack.open_transactions() == []
        assert [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size > 64 * 1024] == []
    assert stack.rows("/shop/full_data") == [{"a": 1, "b": 2}]
    assert stack.upload("/shop/full_data", BIG).status_code == 201
    assert len(stack.rows("/shop/full_data")) == 400_000


def test_no_room_for_a_tables_metadata(stack: Stack, tmp_path: Path) -> None:
    """The catalog's own write fails: the job is told, the branch stays as it was, and the same build passes later."""
    assert stack.upload("/shop/full_meta", "a\n1\n").status_code == 201
    source = HEAD + make_transform(
        "full_meta", inputs=["/shop/raw"], output="/shop/full_meta_out", body="out.write_table(i0.arrow())"
    )
    stack.commit({"pipelines/full_meta.py": source})
    assert stack.build("/shop/full_meta_out")["state"] == "COMPLETED"
    before = stack.rows("/shop/full_meta_out")
    metadata = folder_of(stack, "full_meta_out") / "metadata"
    kept = tmp_path / "kept"
    shutil.copytree(metadata, kept)
    with small_disk(metadata, size="2m") as folder:
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        with filled(folder):
            assert stack.rows("/shop/full_meta_out") == before
            failed = stack.build("/shop/full_meta_out", force=True)
            assert failed["state"] == "FAILED"
            assert "full" in failed["jobs"][0]["reason"].lower() or "space" in failed["jobs"][0]["reason"].lower()
        assert stack.open_transactions() == []
        assert {path.name for path in kept.glob("*.metadata.json")} <= {path.name for path in folder.iterdir()}
        assert stack.rows("/shop/full_meta_out") == before
        assert stack.build("/shop/full_meta_out", force=True)["state"] == "COMPLETED"
        shutil.copytree(folder, kept, dirs_exist_ok=True)
    shutil.copytree(kept, metadata, dirs_exist_ok=True)
    assert stack.rows("/shop/full_meta_out") == before


def test_no_room_for_what_a_job_answers(home: Path, settings: Any) -> None:
    place = manifests.Place(home / "gone")
    answer = manifests.read_result(place=place, code=1)
    assert answer.error is not None
    assert answer.error.code == "no_result"
    settings.TRIBUTARY_RESERVE_BYTES = 2**62
    with small_disk(home, size="4m"), filled(home):
        answer = manifests.read_result(place=place, code=1)
    assert answer.error is not None
    assert answer.error.code == "storage_full"
    assert "could not write. The disk of the installation" in answer.error.message
