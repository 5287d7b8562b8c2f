"""The laws of changelogs over random histories that Spark writes, asked of both executors."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest

from jobs.changelog import read_changelog
from tests.contract.catalog.conftest import Server
from tests.factories import engine as tables
from tests.factories.spark import new_session, rest_catalog
from tests.property import changelog_laws as laws
from tests.spark.engine.conftest import QUICK, BothExecutors, Shared
from tests.spark.engine.histories import STEPS, STYLES, Seen, SparkHistory

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
Read = Callable[..., Any]
KEY = ["k0"]
BRANCH = "on the branch: "
SCRIPTS = {
    "version 2, merge-on-read": ("merge", "partition", "overwrite parts", "widen", "expire", "compact", "delete"),
    "version 3, merge-on-read": ("update", f"{BRANCH}add", f"{BRANCH}merge", "retype", "roll back", "merge"),
}
HISTORIES = 6
"""How many for each style; each takes Spark half a minute."""
ROWS = ["insert", "update", "delete", "merge", "overwrite", "overwrite parts"]


@pytest.fixture(scope="module")
def session(catalog_server: Server) -> Any:
    """Spark with the table's main and one of its branches."""
    options = dict(QUICK)
    for name, branch in (("main", None), ("branch", "dev")):
        options |= rest_catalog(name, catalog_server.uri, catalog_server.token, branch)
        options[f"spark.sql.catalog.{name}.cache-enabled"] = "false"
    return new_session(options)


@pytest.fixture
def write(session: Any, catalog_server: Server) -> Callable[[str, int], SparkHistory]:
    """Make a table and go through some steps, chosen by the seed."""
    catalogs = {"main": catalog_server.pyiceberg(), "branch": catalog_server.pyiceberg("dev")}

    def made(style: str, seed: int, steps: Sequence[str] = ()) -> SparkHistory:
        dice = random.Random(seed)
        print(f"{style}, seed {seed}")
        history = SparkHistory(session, lambda name, table: catalogs[name].load_table(table), style, dice)
        history.step("insert")
        for kind in steps or any_steps(dice):
            history.step(kind.removeprefix(BRANCH), on_branch=kind.startswith(BRANCH))
        return history

    return made


def any_steps(dice: random.Random) -> Iterator[str]:
    """More statements on rows than others, and fewer on the branch."""
    for _ in range(dice.randrange(3, 10)):
        yield f"{BRANCH if dice.random() < 0.3 else ''}{dice.choice([*ROWS, *ROWS, *STEPS])}"


def agree(read_by_spark: Read) -> Read:
    """A changelog by both executors, which tell the same."""

    def read(table: Any, **question: Any) -> Any:
        try:
            found = read_changelog(table, **question)
        except ValueError as error:
            with pytest.raises(ValueError, match=r"Duplicate rows found") as caught:
                read_by_spark(table, **question)
            assert str(caught.value) == str(error)
            raise
        by_spark = read_by_spark(table, **question)
        columns = found.column_names
        assert by_spark.column_names == columns
        assert rows_of(by_spark, columns) == rows_of(found, columns)
        return found

    return read


def rows_of(found: Any, columns: list[str]) -> Counter[Any]:
    return Counter(laws.oracle.row_of(row, columns) for row in found.to_pylist())


def check_merged(seen: Seen, shared: Shared) -> None:
    """A table that Spark wrote follows to the end by Spark's MERGE of the changes, once or twice."""
    last = len(seen.states) - 1
    bags = [laws.bag(seen, rows) for _, rows in seen.states]
    if laws.is_doubled(bags, 0, last, len(KEY)):
        return
    log = read_changelog(seen.table, keys=KEY, start=seen.states[0][0], end=seen.states[last][0])
    version = str(seen.table.metadata.format_version)
    copy = shared.load(seen.folder, uuid4().hex, schema=seen.table.schema(), properties={"format-version": version})
    name = f"tributary.{'.'.join(copy.name())}"
    shared.session.createDataFrame(tables.arrow_rows(seen.table, seen.states[0][1])).writeTo(name).append()
    copy.refresh()
    for _ in range(2):
        shared.apply(copy, log, KEY, from_empty=False)
        assert rows_of(shared.session.table(name).toArrow(), seen.columns) == bags[-1]


def check_net(seen: Seen, read: Read) -> None:
    """Both executors tell the net changes of the whole history, which are those of its rows."""
    bags, last = [laws.bag(seen, rows) for _, rows in seen.states], len(seen.states) - 1
    log = read(seen.table, keys=None, start=seen.states[0][0], end=seen.states[last][0])
    assert laws.events(seen, log) == laws.net_of(bags, 0, last)


@pytest.mark.parametrize("style", SCRIPTS)
def test_the_laws_hold_of_what_spark_wrote(style: str, write: Any, read_by_spark: Read) -> None:
    views = write(style, 3, SCRIPTS[style]).seen()
    for seen in views:
        laws.check(seen, KEY)
    assert len(views) == 2  # the branch, or what came before the versions that expired
    assert sum(len(seen.states) for seen in views) > 6
    check_net(views[0], agree(read_by_spark))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("style", STYLES)
def test_the_laws_hold_for_both_executors(
    style: str, write: Any, read_by_spark: Read, both: BothExecutors, shared: Shared
) -> None:
    first = secrets.randbelow(2**32)
    for seed in range(first, first + HISTORIES):
        for seen in write(style, seed).seen():
            seen.read = agree(read_by_spark)
            laws.check(seen, KEY)
            check_merged(seen, shared)
    assert both.by_spark > HISTORIES
