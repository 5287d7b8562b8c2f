"""Text that is nested too deeply is malformed wherever it is read, and never ends a reader."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobs.engine.errors import RefusedQueryError, UnreadableTableError
from jobs.engine.query.statement import list_tables
from jobs.engine.read.metadata import read_metadata
from jobs.entrypoints.pipeline_file import FILE, read_pipeline
from jobs.parsing import load_json, load_toml
from jobs.protocol import Progress, ProtocolError, load, read_answer
from webapp.accounts.queries.audit import read_kept_head
from webapp.accounts.rules.audit import ChainHead
from webapp.builds.runner.manifests import Place, read_seal
from webapp.builds.runner.paths import seals_folder
from webapp.builds.services.seals import check_seals, sweep_seals
from webapp.comparisons.diffs.artifact import read_json
from webapp.core.errors import InvalidInput
from webapp.core.fsck import Finding

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


@pytest.mark.parametrize("text", ["SELECT " + "[" * 900 + "1" + "]" * 900, "SELECT " + "(" * 3000 + "1" + ")" * 3000])
def test_queries_reject_deep_nesting(text: str) -> None:
    with pytest.raises(RefusedQueryError):
        list_tables(text)


def test_stored_answers_and_seals_reject_deep_nesting(tmp_path: Path, settings: object) -> None:
    settings.TRIBUTARY_HOME = tmp_path  # type: ignore[attr-defined]
    record = seals_folder() / "7.1.json"
    record.parent.mkdir()
    record.write_text(DEEP)
    assert [finding.code for finding in check_seals() if isinstance(finding, Finding)] == ["seal_damaged"]
    assert sweep_seals() == 0


def test_code_reads_json_and_toml_by_the_parser_that_refuses_depth() -> None:
    """Others read what our own processes write, or cannot import the parser."""
    trusted = {
        "jobs/parsing.py",
        "jobs/engine/query/preview.py",
        "jobs/engine/query/serving.py",
        "jobs/engine/read/manifest_files.py",
        "jobs/entrypoints/forkserver.py",
        "jobs/entrypoints/linting.py",
        "jobs/entrypoints/relays.py",
        "webapp/comparisons/diffs/reader.py",
        "webapp/core/helpers.py",
        "webapp/dispatch/processes.py",
        "webapp/git/hooks/ask.py",
        "webapp/git/http_backend.py",
        "webapp/repositories/services/webhooks.py",
        "webapp/runtime/broker.py",
        "webapp/runtime/fork_server.py",
        "webapp/runtime/probes.py",
        "webapp/runtime/spark_folders.py",
    }
    root = Path(__file__).parents[3]
    paths = [path for folder in ("jobs", "webapp") for path in (root / folder).rglob("*.py")]
    direct = {path for path in paths if re.search(r"\b(json|tomllib)\.loads?\(", path.read_text())}
    assert {path.relative_to(root).as_posix() for path in direct} == trusted
