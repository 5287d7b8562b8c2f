"""Messages survive the way there and back, and everything else is refused by name."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import pytest

from jobs import protocol
from jobs.protocol import (
    CodeError,
    DiffResult,
    ExpectationResult,
    InputSpec,
    JobError,
    JobManifest,
    JobResult,
    JobSpec,
    OutputResult,
    OutputSpec,
    OutputTarget,
    PinnedInput,
    ProtocolError,
    PublishResult,
    dump,
    load,
    read_answer,
    read_message,
    write_message,
)

MANIFEST = JobManifest(
    job_id="5f2a",
    root="/code",
    function="pipelines.delays:compute",
    catalog_uri="http://localhost:8000/iceberg",
    token="secret",
    branch="_job/5f2a",
    build_branch="feature",
    inputs=(PinnedInput("flights", "/nyc/flights", "nyc.flights", "master", "a61b08", 5, None),),
    outputs=(OutputTarget("daily", "/nyc/delays/daily", "nyc.delays.daily"),),
    result_path="/job/result.json",
)
RESULT = JobResult(
    "failed",
    outputs={"/nyc/delays/daily": OutputResult(3, 7)},
    checks=(ExpectationResult("/nyc/delays/daily", "one row a day", passed=False, on_error="FAIL", message="3 rows"),),
    error=JobError("ValueError: no", "pipelines/delays.py", 41),
)


@pytest.mark.parametrize("message", [MANIFEST, RESULT])
def test_messages_come_back_as_they_were(message: object) -> None:
    assert load(type(message), dump(message)) == message


def change(**body: object) -> str:
    envelope = json.loads(dump(RESULT))
    envelope["body"].update(body)
    return json.dumps(envelope)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "no 'protocol'"),
        (dump(RESULT).replace(f'"protocol":{protocol.VERSION}', '"protocol":99'), "speaks protocol 99"),
        (dump(MANIFEST), "expected a JobResult, got 'JobManifest'"),
        (change(status="fine"), "JobResult.status: 'fine' is none of"),
        (change(checks={}), "JobResult.checks: expected a list"),
        (change(more=1), "unknown field 'more'"),
        (
            change(outputs={"/x": {"rows": True, "snapshot_id": 1}}),
            r"JobResult.outputs./x.rows: expected int, got bool",
        ),
        (change(outputs={"/x": {"rows": 1}}), "field 'snapshot_id' is missing"),
        (change(error=5), "JobResult.error"),
        (change(outputs=[]), "expected an object"),
    ],
)
def test_what_is_wrong_is_said(text: str, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=complaint):
        load(JobResult, text)


def test_only_messages_are_dumped() -> None:
    with pytest.raises(ProtocolError, match="dict is not a message"):
        dump({})


def test_files_are_written_whole_and_read_with_care(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_message(path, RESULT)
    assert read_message(JobResult, path) == RESULT
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_links_and_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    link = tmp_path / "result.json"
    link.symlink_to(secret)
    with pytest.raises(ProtocolError, match="no message to read"):
        read_message(JobResult, link)
    with pytest.raises(ProtocolError, match="no message to read"):
        read_message(JobResult, tmp_path / "absent")
    monkeypatch.setattr(protocol, "MAX_MESSAGE_BYTES", 10)
    with pytest.raises(ProtocolError, match="larger than 10 bytes"):
        write_message(secret, RESULT)
        read_message(JobResult, secret)


def test_what_no_database_keeps_of_a_job_is_said_otherwise_or_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    said = "half \ud800 and \x00 nul, \U0001f600"
    write_message(path, JobResult(status="failed", error=JobError(message=said, code="failed")))
    error = read_answer(JobResult, path).error
    assert error is not None
    assert error.message == "half \ufffd and \ufffd nul, \U0001f600"
    text = path.read_text()
    for hostile in ("NaN", "Infinity", "1e999", "1" + "0" * 19, "9" * 5000, "[" * 100_000):
        path.write_text(text.replace('"failed"', hostile))
        with pytest.raises(ProtocolError, match="this is not JSON"):
            read_answer(JobResult, path)


def test_what_a_job_says_of_its_failure_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    said = "x" * 2_000_000
    check = ExpectationResult("/shop/one", said, passed=False, on_error="FAIL", message=said)
    write_message(path, JobResult("failed", checks=(check,), error=JobError(said, said, code=said)))
    result = read_answer(JobResult, path)
    assert result.error is not None
    assert result.error.message.startswith("xxx")
    assert result.error.message.endswith("… (1,980,000 more signs)")
    assert len(dump(result)) < 100_000
    write_message(path, PublishResult(errors=(CodeError(said, 1, said),)))
    assert len(dump(read_answer(PublishResult, path))) < 20_000
    write_message(path, DiffResult("failed", message=said))
    assert len(read_answer(DiffResult, path).message) < 30_000
    text = dump(RESULT)
    for hostile in (
        text.replace('"failed"', f'"{said}"'),
        text.replace('"JobResult"', f'"{said}"'),
        text.replace('"protocol":1', f'"protocol":"{said}"'),
        change(**{said: 1}),
        change(checks=[dataclasses.asdict(dataclasses.replace(check, name="x", message="x"))] * 1_001),
    ):
        path.write_text(hostile)
        with pytest.raises(ProtocolError) as refused:
            read_answer(JobResult, path)
        assert len(str(refused.value)) < 2_000


def test_what_no_column_holds_is_no_answer() -> None:
    spec = JobSpec("m:one", "m.py", 1, (InputSpec("i", "/shop/raw"),), (OutputSpec("o", "/shop/one"),), "d1")
    assert load(PublishResult, dump(PublishResult(jobspecs=(spec,)))).jobspecs == (spec,)
    long = "x" * 1001
    for changed in (
        replace(spec, function=long),
        replace(spec, file=long),
        replace(spec, digest=long),
        replace(spec, line=-1),
        replace(spec, line=2**31),
        replace(spec, inputs=(InputSpec(long, "/shop/raw"),)),
        replace(spec, inputs=(InputSpec("i", "/shop/raw", long),)),
        replace(spec, outputs=(OutputSpec("o", f"/shop/{long}"),)),
    ):
        with pytest.raises(ProtocolError, match="that are stored|is not between 0 and"):
            load(PublishResult, dump(PublishResult(jobspecs=(changed,))))
