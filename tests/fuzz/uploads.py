"""Files that nobody should upload, by a seed; `python -m tests.fuzz.uploads` loads some as the job of an upload does.

A process of its own loads them: one that dies, or takes too long, has printed before at which file.
"""

from __future__ import annotations

import decimal
import io
import json
import random
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.entrypoints import upload
from jobs.protocol import JobResult, StagedFile, UploadManifest, read_message, write_message
from tests.fakes.jobs_catalog import MemoryCatalog
from tests.fuzz.values import HOSTILE_TEXTS, any_value, mutate_bytes

ENDINGS = {"csv": "csv", "tsv": "csv", "jsonl": "jsonl", "parquet": "parquet"}
ENCODINGS = ("utf-16", "utf-16-be", "utf-32", "latin-1", "utf-8-sig", "cp1252", "utf-7")
FILE_SECONDS = 60
MOST_REPEATED = 2**27
"""Bytes of a file that is repeated: the process has no more memory than the job that it plays."""
MOST_TEXT = 20_000
"""Characters of an explanation."""


@dataclass(frozen=True)
class File:
    """A file as it is sent."""

    name: str
    content: bytes

    @property
    def format(self) -> str:
        """What its ending says."""
        return ENDINGS[self.name.rpartition(".")[2]]


def make_file(seed: int) -> File:
    """The file of a number: a good one with something wrong, or one that was never good."""
    dice = random.Random(seed)
    ending = dice.choice(("csv", "csv", "tsv", "jsonl", "parquet", "parquet", "parquet"))
    content = {"csv": _make_csv, "tsv": _make_csv, "jsonl": _make_lines, "parquet": _make_parquet}[ending](dice)
    act = dice.choice(MUTATIONS)
    if dice.random() < 0.05:
        ending = dice.choice(list(ENDINGS))
    return File(f"rows-{seed}.{ending}", act(content, dice) or b"x")


def _make_csv(dice: random.Random) -> bytes:
    names = [dice.choice(("id", "name", "at", *HOSTILE_TEXTS)) for _ in range(dice.choice((1, 2, 3, 30)))]
    if dice.random() < 0.8:
        names = [f"c{place}" for place in range(len(names))]
    mark, end = dice.choice(",,;\t|"), dice.choice(("\n", "\r\n", "\r"))
    width = [len(names)] * 200 + [dice.randrange(4)]
    rows = [[_text(dice) for _ in range(dice.choice(width))] for _ in range(dice.choice((0, 1, 5, 200)))]
    return _encode(end.join(mark.join(row) for row in [names, *rows]) + end)


def _text(dice: random.Random) -> str:
    word = dice.choice(("1", "-7", "2.5", "1e308", "true", "NA", "", "2026-01-31", "2026-01-31 10:00:00Z", "x", "0042"))
    if dice.random() < 0.1:
        word = dice.choice(HOSTILE_TEXTS)
    return f'"{word}"' if dice.random() < 0.15 else word


def _make_lines(dice: random.Random) -> bytes:
    rows = [{"id": number, "more": any_value(dice)} for number in range(dice.choice((1, 3, 100)))]
    if dice.random() < 0.1:
        rows.append({"deep": json.loads("[" * 500 + "]" * 500)})
    if dice.random() < 0.1:
        rows.append(dict.fromkeys((str(number) for number in range(6000)), 1))  # type: ignore[arg-type]
    text = "\n".join(json.dumps(row, ensure_ascii=dice.random() < 0.5) for row in rows)
    if dice.random() < 0.05:
        text += "\n" + "[" * 50_000
    return _encode(text)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@cache
def _columns() -> tuple[pa.Array, ...]:
    """A column of each type that a Parquet file can have."""
    inner = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    return (
        pa.array([1, None, 3], pa.int8()),
        pa.array([1, 2, 2**63], pa.uint64()),
        pa.array([1.5, float("nan"), None], pa.float32()),
        pa.array([0.1, -0.0, None]),
        pa.array(["a", None, "é" * 100]),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array([b"\0", b"\xff", None]),
        pa.array([b"ab", b"cd", None], pa.binary(2)),
        pa.array([decimal.Decimal("1.23"), None, decimal.Decimal("-9.99")], pa.decimal128(38, 2)),
        pa.array([decimal.Decimal("1.23"), None, decimal.Decimal("-9.99")], pa.decimal256(60, 2)),
        pa.array([date(2026, 1, 1), None, date.max]),
        pa.array([datetime(2026, 1, 1, tzinfo=UTC), None, datetime.max.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")),
        pa.array([0, 2**62, None], pa.timestamp("ns")),
        pa.array([0, 2**50, -(2**50)], pa.timestamp("s")),
        pa.array([0, 1, None], pa.time64("us")),
        pa.array([0, 1, None], pa.duration("us")),
        pa.nulls(3),
        pa.array([[1], [], None], pa.list_(pa.int64())),
        pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        pa.array([{"x": 1, "y": ["z"]}, None, {"x": None, "y": None}], inner),
        pa.array([[{"x": 1, "y": None}], None, []], pa.list_(inner)),
    )


def _make_parquet(dice: random.Random) -> bytes:
    columns = [dice.choice(_columns()) for _ in range(dice.choice((1, 2, 5)))]
    names = [f"c{place}" for place in range(len(columns))]
    if dice.random() < 0.2:
        names = [dice.choice(HOSTILE_TEXTS[4:]).encode("utf-8", "ignore").decode() for _ in names]
    table = pa.Table.from_arrays(columns, names=names)
    table = dice.choice((table, table, table.slice(0, 0), pa.concat_tables([table] * 400)))
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression=dice.choice(("none", "snappy", "zstd", "gzip", "brotli", "lz4")),
        data_page_version=dice.choice(("1.0", "2.0")),
        use_dictionary=dice.random() < 0.5,
        write_page_index=dice.random() < 0.3,
        row_group_size=dice.choice((1, 100, 10_000)),
        store_schema=dice.random() < 0.7,
    )
    return sink.getvalue()


def _keep(content: bytes, _dice: random.Random) -> bytes:
    return content


def _cut(content: bytes, dice: random.Random) -> bytes:
    return content[: dice.randrange(len(content) + 1)]


def _flip(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 3, 50))):
        place = dice.randrange(len(changed) or 1)
        changed[place : place + 1] = bytes(byte ^ 1 << dice.randrange(8) for byte in changed[place : place + 1])
    return bytes(changed)


def _damage_footer(content: bytes, dice: random.Random) -> bytes:
    """Change what a Parquet file says of itself: lengths, counts, offsets and types are there."""
    size = int.from_bytes(content[-8:-4], "little")
    start = max(4, len(content) - 8 - size)
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 2, 8))):
        place = dice.randrange(start, max(start + 1, len(content)))
        changed[place : place + 1] = bytes([dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))])
    return bytes(changed)


def _claim_much(content: bytes, dice: random.Random) -> bytes:
    """Write the largest number that fits where some small one is."""
    changed = bytearray(content)
    place = dice.randrange(len(changed) or 1)
    changed[place : place + 1] = b"\xff" * dice.choice((4, 9)) + b"\x7f"
    return bytes(changed)


def _encode_otherwise(content: bytes, dice: random.Random) -> bytes:
    return content.decode("utf-8", "replace").encode(dice.choice(ENCODINGS), "replace")


def _repeat(content: bytes, dice: random.Random) -> bytes:
    return content * min(dice.choice((2, 3, 50)), max(1, MOST_REPEATED // (len(content) or 1)))


def _insert(content: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(content) + 1)
    piece = dice.choice((b"\0" * 4096, b'"', b"\r", b"9" * 5000, b"\xed\xa0\x80", b"\x1a", b"PAR1", b"{" * 5000))
    return content[:place] + piece + content[place:]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _keep, _keep, _keep, _cut, _flip, _flip, _damage_footer, _damage_footer, _claim_much, _encode_otherwise, _repeat, _insert,
    mutate_bytes,
)  # fmt: skip


def load(file: File, folder: Path, *, mode: str) -> dict[str, Any]:
    """Load a file as the job does, into a table of its own that has rows already; return what came of it."""
    catalog = MemoryCatalog(folder)
    table = catalog.load_table("shop.rows")
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("c0", pa.int64()), ("c1", pa.string())]))
    table.append(pa.table({"c0": [1], "c1": ["a"]}))
    path, result_path = folder / file.name, folder / "result.json"
    path.write_bytes(file.content)
    names = {"path": "/shop/rows", "table": "shop.rows", "branch": "b", "build_branch": "master"}
    manifest = UploadManifest(
        job_id="job", files=(StagedFile(str(path), file.format, mode),), catalog_uri="", token="",
        result_path=str(result_path), **names,
    )  # fmt: skip
    write_message(folder / "manifest.json", manifest)
    with mock.patch.object(upload, "open_catalog", lambda **_: catalog):
        code = upload.main(str(folder / "manifest.json"))
    result = read_message(JobResult, result_path)
    return {"code": code, **describe(result, catalog, folder)}


def describe(result: JobResult, catalog: MemoryCatalog, folder: Path) -> dict[str, Any]:
    """What a result says, and what is wrong with it."""
    table = catalog.load_table("shop.rows")
    rows = table.scan().to_arrow().num_rows
    if result.status == "ok":
        said = result.outputs["/shop/rows"]
        wrong = "" if said.rows == rows else f"says {said.rows} rows, has {rows}"
        return {"kind": "loaded", "rows": rows, "wrong": wrong}
    error = result.error
    wrong = "" if rows == 1 and len(table.metadata.snapshots) == 1 else "failed, and changed the rows"
    if error is None or not error.message or not error.code or len(error.message) > MOST_TEXT:
        wrong = f"explains nothing: {str(error)[:200]}"
    elif str(folder) in error.message:
        wrong = f"names a file of the machine: {error.message[:300]}"
    return {"kind": error.code if error else "", "wrong": wrong}


def main(first: int, count: int) -> None:
    """Load the files of some numbers, and print a line before and after each."""
    for seed in range(first, first + count):
        print(json.dumps({"seed": seed}), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            file = make_file(seed)
            signal.alarm(FILE_SECONDS)  # which ends the process, whatever library it is in
            try:
                report = load(file, Path(folder), mode=("snapshot", "append")[seed % 2])
            except Exception as error:  # noqa: BLE001 - whatever leaves the job is what is looked for
                report = {"kind": "escaped", "wrong": repr(error)[:500]}
            signal.alarm(0)
        print(json.dumps({"seed": seed, **report}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
