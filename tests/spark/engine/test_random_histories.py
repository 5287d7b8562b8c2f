"""The laws of changelogs over random histories that Spark writes, asked of both executors."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.contract.catalog.conftest import Server
from tests.factories.spark import QUICK, new_session, rest_catalog
from tests.factories.tiers import further
from tests.property import changelog_laws as laws
from tests.spark.engine.agreement import agree, check_merged
from tests.spark.engine.conftest import BothExecutors, Read, Shared
from tests.spark.engine.histories import STEPS, STYLES, SparkHistory

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
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


def check_net(seen: laws.History, read: Read) -> None:
    """Both executors tell the net changes of the whole history, which are those of its rows."""
    bags, last = [laws.bag(seen, rows) for _, rows in seen.states], len(seen.states) - 1
    log = read(seen.table, keys=None, start=seen.states[0][0], end=seen.states[last][0])
    assert laws.events(seen, log) == laws.net_of(bags, 0, last)


@further("spark/engine/test_write_styles.py::test_the_laws_hold_of_what_several_programs_wrote")
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
            check_merged(seen, KEY, shared)
    assert both.by_spark > HISTORIES
