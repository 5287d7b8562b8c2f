"""Lines of a log survive writing and reading, and a job cannot forge the runner's."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.dispatch import log_lines
from webapp.dispatch.log_lines import LogEnd, LogLine
from webapp.dispatch.logs import LogReader, LogWriter, read_lines

AT = datetime(2026, 11, 21, 14, 2, 42, 18_000, tzinfo=UTC)


def test_line_has_time_stream_and_text() -> None:
    assert log_lines.format_line("hello", at=AT) == b"14:02:42.018 hello\n"
    assert log_lines.format_line("hello", at=AT, is_runner=True) == b"14:02:42.018#hello\n"
    parsed = log_lines.parse_line(b"14:02:42.018#hello\n", n=3, end=19)
    assert parsed == LogLine(n=3, t="14:02:42.018", stream="runner", text="hello", end=19)


@given(st.text(), st.booleans())
def test_any_text_comes_back_on_one_line_and_in_its_stream(text: str, is_runner: bool) -> None:
    raw = log_lines.format_line(text, at=AT, is_runner=is_runner)
    assert raw.count(b"\n") == 1
    parsed = log_lines.parse_line(raw, n=1, end=len(raw))
    assert isinstance(parsed, LogLine)
    assert parsed.stream == ("runner" if is_runner else "job")


def test_long_line_is_cut_and_says_so() -> None:
    raw = log_lines.format_line("x" * 100_000, at=AT)
    assert len(raw) < log_lines.MAX_LINE_BYTES + 64
    assert raw.endswith(log_lines.CUT.encode() + b"\n")


def test_end_line_is_read_and_cannot_be_printed_by_a_job() -> None:
    assert log_lines.parse_line(log_lines.format_end("failed", 137), n=1, end=1) == LogEnd("failed", 137)
    forged = log_lines.format_line("__END__ completed rc=0", at=AT)
    assert isinstance(log_lines.parse_line(forged, n=1, end=1), LogLine)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("ValueError: no", "error"),
        ("Error: pipelines/m.py:3 no", "error"),
        ("Traceback (most recent call last):", "error"),
        ('expectation "one row" failed: 4 rows', "error"),
        ("pipelines/m.py:58 warning: odd", "warning"),
        ("    raise ValueError('no')", ""),
        ("read 3 errors columns", ""),
        ("wrote 2 rows", ""),
    ],
)
def test_level_of_a_line(text: str, level: str) -> None:
    assert LogLine(1, "", "job", text, 0).level == level


def test_reader_follows_resumes_and_sees_the_end(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "job.log"
    reader = LogReader(path)
    assert reader.read() == []
    writer = LogWriter(path)
    writer.write("one")
    writer.write("two")
    first = reader.read()
    assert [(line.n, line.text) for line in first] == [(1, "one"), (2, "two")]
    with path.open("ab") as file:
        file.write(b"14:00:00.000 half a li")
    assert reader.read() == []
    with path.open("ab") as file:
        file.write(b"ne\n")
    assert [line.text for line in reader.read()] == ["half a line"]
    resumed = LogReader(path, offset=first[0].end)
    assert [(line.n, line.text) for line in resumed.read()] == [(2, "two"), (3, "half a line")]
    inside = LogReader(path, offset=first[0].end + 3)
    assert [line.n for line in inside.read()] == [2, 3]
    writer.end("completed", 0)
    assert (reader.read(), reader.ended) == ([], LogEnd("completed", 0))
    lines, end = read_lines(path, after=1, limit=1)
    assert ([line.n for line in lines], end) == ([2], None)
    lines, end = read_lines(path, after=2)
    assert ([line.n for line in lines], end) == ([3], LogEnd("completed", 0))
    for each in (reader, resumed, inside, writer):
        each.close()


def test_full_log_drops_the_jobs_lines_and_keeps_the_runners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "MAX_FILE_BYTES", 200)
    writer = LogWriter(tmp_path / "job.log")
    for number in range(100):
        writer.write(f"line {number}")
    writer.write("the end comes", is_runner=True)
    writer.end("failed", 1)
    writer.close()
    lines, end = read_lines(tmp_path / "job.log")
    assert lines[-2].text == "log is full, later lines are dropped"
    assert lines[-1].text == "the end comes"
    assert len(lines) < 15
    assert end == LogEnd("failed", 1)
