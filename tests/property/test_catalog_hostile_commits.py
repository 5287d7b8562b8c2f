"""Whatever is sent as a commit is done or refused: never our own error, and never metadata that cannot be registered again."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.factories import catalog as make
from webapp.catalog.rules import commits, lens
from webapp.catalog.rules.branch_properties import MASTER
from webapp.catalog.rules.commits import CommitRequest
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import normalise
from webapp.catalog.rules.readable import check_foreign
from webapp.core.errors import AppError

JUNK: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, -(2**63) - 1, 1.5, [], {}, [1], {"a": 1}),
    *("", "x", "\u00b2", "-1", "main", "master", "b", "_job/1", "\0", "a" * 300, "bucket[4]", "long", "2020-01-01"),
)


def spoil(body: Any, random: Random) -> None:
    """Replace, remove or double one member somewhere in a body."""
    places: list[tuple[Any, Any]] = []

    def walk(item: Any) -> None:
        pairs = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        for key, value in list(pairs):
            places.append((item, key))
            walk(value)

    walk(body)
    owner, key = random.choice(places)
    way = random.random()
    if way < 0.7:
        owner[key] = copy.deepcopy(random.choice(JUNK))  # what is spoiled next may be what is in it
    elif way < 0.85 or isinstance(owner, dict):
        del owner[key]
    else:
        owner.append(copy.deepcopy(owner[key]))


def updates_for(view: Metadata, random: Random) -> list[dict[str, Any]]:
    """What a client could send that sees this."""
    number, head = random.randrange(1000), view["refs"].get("main", {}).get("snapshot-id", 1)
    made = make.snapshot(view, **{"snapshot-id": random.randrange(2**60)})
    part = {"name": f"p{number}", "source-id": 1, "transform": random.choice(["bucket[4]", "identity", "truncate[3]"])}
    order = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
    file = {"snapshot-id": head, "statistics-path": make.LOCATION + "/x", "file-size-in-bytes": 1}
    blob = {"type": "a", "snapshot-id": head, "sequence-number": 1, "fields": [1]}
    ways: list[list[dict[str, Any]]] = [
        [{"action": "add-snapshot", "snapshot": made}, make.set_ref("main", made["snapshot-id"])],
        make.add_column(view, f"c{number}", random.choice(["int", "decimal(9, 2)", "timestamp"])),
        [{"action": "add-spec", "spec": {"fields": [part]}}, {"action": "set-default-spec", "spec-id": -1}],
        [{"action": "add-sort-order", "sort-order": {"fields": [order]}}],
        [make.set_ref(f"r{number % 5}", head, random.choice(["tag", "branch"]), **{"max-ref-age-ms": 5})],
        [{"action": "set-statistics", "statistics": {**file, "file-footer-size-in-bytes": 1, "blob-metadata": [blob]}}],
        [{"action": "remove-schemas", "schema-ids": [number % 4]}],
        [{"action": "remove-snapshots", "snapshot-ids": [head]}],
        [{"action": "set-properties", "updates": {"a": str(number)}}],
    ]
    return [*random.choice(ways), *random.choice(ways)]


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), version=st.sampled_from([1, 2, 3]))
def test_a_spoiled_commit_is_refused_or_leaves_a_readable_table(seed: int, version: int) -> None:
    random = Random(seed)
    table = make.append(make.make_table(version=version))
    for _ in range(12):
        branch = random.choice([None, "b", "c"])
        view = lens.get(table, branch or MASTER)
        body = {
            "requirements": [
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": view["current-snapshot-id"]}
            ],
            "updates": updates_for(view, random),
        }
        body = json.loads(json.dumps(body))
        for _ in range(random.choice([0, 1, 1, 2])):
            spoil(body, random)
        try:
            request = CommitRequest.parse(body, branch=branch)
            commits.touched_branches(table, request)
            table = commits.commit(table, request, now_ms=make.NOW)
        except AppError:
            continue
        check_foreign(normalise(json.loads(json.dumps(table))), now_ms=make.NOW)
