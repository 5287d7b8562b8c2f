"""One history, written in every style and by several programs in turn: its changelogs and row diffs are always the same."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.name_mapping import create_mapping_from_schema

from jobs.changelog import read_changelog
from jobs.engine.write.writer import _commit_files
from tests.factories import engine as tables
from tests.factories.tiers import thin
from tests.property import changelog_laws as laws
from tests.property.engine_oracle import canon
from tests.property.test_engine_diff import POOLS, field
from tests.spark.engine.agreement import agree, check_merged
from tests.spark.engine.conftest import BothExecutors, Read, Shared
from tests.spark.engine.histories import STYLES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
KEY = ["id"]
WRITERS = ["spark", "pyiceberg", "spark", "duckdb", "spark", "polars", "spark"]
"""Who writes each version; after the first of its own Spark changes rows of files that others wrote."""
KINDS = ["double", "float", "decimal", "string", "binary", "date", "timestamp", "timestamptz", "struct", "list", "map"]
PLAIN = {"double", "float", "string", "binary", "date", "timestamp"}
"""What Polars stores in Iceberg's types."""
HISTORIES = 2
Versions = list[list[laws.Row]]


class WrittenInTurns:
    """A table of one style that went through some versions."""

    def __init__(self, shared: Shared, folder: Path, style: str, kinds: dict[str, str], versions: Versions) -> None:
        self.folder, self.columns = folder, list(kinds)
        self.read: Read = read_changelog
        self._shared = shared
        fields = (field(place + 1, name, kind) for place, (name, kind) in enumerate(kinds.items()))
        # what has no field ids is read by the mapping, which has to know the ids that the table gives
        self._schema = assign_fresh_schema_ids(Schema(*fields))
        version, mode = STYLES[style]
        properties = {
            "format-version": str(version),
            "schema.name-mapping.default": create_mapping_from_schema(self._schema).model_dump_json(),
            **{f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")},
        }
        self.table = shared.load(folder, uuid4().hex, schema=self._schema, properties=properties)
        self.states: list[tuple[int | None, list[laws.Row]]] = [(None, [])]
        for writer, rows in zip(WRITERS, versions, strict=False):
            is_plain = PLAIN.issuperset(set(kinds.values()) - {"long"})
            self._write("pyarrow" if writer == "polars" and not is_plain else writer, rows)
            self.table.refresh()
            self.states.append((tables.snapshot_of(self.table), rows))

    def _write(self, writer: str, rows: list[laws.Row]) -> None:
        content = tables.arrow_rows(self.table, rows)
        if writer == "spark":
            held = {canon(row["id"]): row for row in self.states[-1][1]}
            same = [is_same(row, held.get(canon(row["id"]), {})) for row in rows]
            self._merge(content.append_column("same", [same]))
        else:
            files = tables.write_files(self.table, content, writer)
            _commit_files(self.table, files, is_append=False, job_id="")

    def _merge(self, content: Any) -> None:
        """Change what differs alone, in the way of the table's style."""
        session, view = self._shared.session, f"given_{uuid4().hex}"
        session.createDataFrame(content).createTempView(view)
        session.sql(
            f"MERGE INTO tributary.{'.'.join(self.table.name())} t USING {view} s ON t.id <=> s.id "
            "WHEN MATCHED AND NOT s.same THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
            "WHEN NOT MATCHED BY SOURCE THEN DELETE"
        )

    def make(self) -> Any:
        return tables.make_table(self.folder / uuid4().hex, self._schema)

    def told(self, first: int, last: int, **more: Any) -> Any:
        return self.read(self.table, start=self.states[first][0], end=self.states[last][0], **more)

    @staticmethod
    def place_of(ordinal: int) -> int:
        return ordinal


def is_same(one: laws.Row, other: laws.Row) -> bool:
    return canon(one) == canon(other)


def any_versions(dice: random.Random, kinds: dict[str, str]) -> Versions:
    """Of each version some rows stay, some change, some go, and others come."""

    def draw(key: int | None) -> laws.Row:
        return {"id": key} | {name: dice.choice(POOLS[kind][1]) for name, kind in kinds.items() if name != "id"}

    found: Versions = []
    for _ in WRITERS:
        held = {row["id"]: row for row in found[-1]} if found else {}
        chosen = [key for key in (None, *range(8)) if dice.random() < (0.8 if key in held else 0.5)]
        found.append([held[key] if key in held and dice.random() < 0.6 else draw(key) for key in chosen])
    return found


def any_kinds(dice: random.Random) -> dict[str, str]:
    names = dice.choice([KINDS, sorted(PLAIN)])
    return {"id": "long", **{f"v {kind}": kind for kind in dice.sample(names, 4)}}


Write = Callable[[str, int], WrittenInTurns]


@pytest.fixture
def write(shared: Shared, tmp_path: Path) -> Write:
    """Write the history of some seed in some style."""

    def made(style: str, seed: int) -> WrittenInTurns:
        print(f"{style}, seed {seed}")
        dice = random.Random(seed)
        kinds = any_kinds(dice)
        return WrittenInTurns(shared, tmp_path, style, kinds, any_versions(dice, kinds))

    return made


def told_of(history: WrittenInTurns, keys: list[str] | None, first: int) -> Any:
    return laws.events(history, history.told(first, len(history.states) - 1, keys=keys))


@pytest.mark.parametrize(
    "style", thin(["version 1", "version 3, merge-on-read"], every_run=["version 3, merge-on-read"])
)
def test_the_laws_hold_of_what_several_programs_wrote(style: str, write: Write) -> None:
    history = write(style, 7)
    del history.states[5:]
    for first in (0, 2):
        laws.check_range(history, KEY, first)
    laws.check_diff(history, KEY, history.states[1], history.states[4])


@pytest.mark.soak
def test_in_every_style_both_executors_tell_the_same(
    write: Write, read_by_spark: Read, both: BothExecutors, shared: Shared
) -> None:
    first = secrets.randbelow(2**32)
    for seed in range(first, first + HISTORIES):
        histories = [write(style, seed) for style in STYLES]
        questions = [(keys, start) for keys in (None, KEY) for start in (0, 3)]
        answers = [[told_of(history, *question) for question in questions] for history in histories]
        assert all(answer == answers[0] for answer in answers)
        for history in histories:
            history.read = agree(read_by_spark)
            laws.check(history, KEY)
            check_merged(history, KEY, shared)
    assert both.by_spark
