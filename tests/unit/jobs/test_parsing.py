"""Text that is nested too deeply is malformed wherever it is read, and never ends a reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.engine.errors import UnreadableTableError
from jobs.engine.read.metadata import read_metadata
from jobs.entrypoints.pipeline_file import FILE, read_pipeline
from jobs.parsing import load_json, load_toml
from jobs.protocol import Progress, ProtocolError, load, read_answer
from webapp.accounts.queries.audit import read_kept_head
from webapp.accounts.rules.audit import ChainHead
from webapp.builds.runner.manifests import Place, read_seal
from webapp.comparisons.diffs.artifact import read_json
from webapp.core.errors import InvalidInput

DEEP = "[" * 100_000


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 100_000])
def test_load_json_rejects_deep_nesting(text: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        load_json(text)


@pytest.mark.parametrize("text", [f"a = {DEEP}", "a = " + "{b=" * 100_000])
def test_load_toml_rejects_deep_nesting(text: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        load_toml(text)


def test_messages_reject_deep_nesting(tmp_path: Path) -> None:
    (tmp_path / "message").write_text(DEEP)
    with pytest.raises(ProtocolError):
        load(Progress, DEEP)
    with pytest.raises(ProtocolError):
        read_answer(Progress, tmp_path / "message")
    # Deep, and still within what the parser takes.
    (tmp_path / "message").write_text("[" * 2_000 + "]" * 2_000)
    with pytest.raises(ProtocolError):
        read_answer(Progress, tmp_path / "message")


def test_files_reject_deep_nesting(tmp_path: Path, settings: object) -> None:
    settings.TRIBUTARY_HOME = tmp_path  # type: ignore[attr-defined]
    (tmp_path / "audit-head").write_text(DEEP)
    assert read_kept_head() == ChainHead()
    (tmp_path / "diff").mkdir()
    (tmp_path / "diff" / "summary.json").write_text(DEEP)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "diff", "summary.json")
    place = Place(tmp_path / "7.1")
    place.seal.write_text(DEEP)
    with pytest.raises(InvalidInput):
        read_seal(place=place)
    with pytest.raises(UnreadableTableError):
        (tmp_path / "v1.metadata.json").write_text(DEEP)
        read_metadata(f"file://{tmp_path}/v1.metadata.json", io_properties={})


def test_pipeline_file_names_deep_nesting(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(f"a = {DEEP}")
    _, [error] = read_pipeline(tmp_path)
    assert "nested too deeply" in error.message
