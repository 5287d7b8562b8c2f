"""Names and parsing of `foundry.branch.<branch>.*` and the one place where `master` and `main` are mapped.

A branch tracks its own current schema, default partition spec and default sort order. The three ids live in the table's
properties, so that the metadata file alone tells everything. Branch names contain dots: a key is split from its end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from webapp.core.numbers import read_count

MASTER = "master"
MAIN_REF = "main"
PREFIX = "foundry.branch."
SCHEMA_SUFFIX = ".schema-id"
SPEC_SUFFIX = ".default-spec-id"
ORDER_SUFFIX = ".default-sort-order-id"
SUFFIXES = (SCHEMA_SUFFIX, SPEC_SUFFIX, ORDER_SUFFIX)


@dataclass(frozen=True, slots=True)
class TrackedIds:
    """What a branch tracks besides its head."""

    schema_id: int
    spec_id: int
    order_id: int


def ref_of_branch(branch: str) -> str:
    """Return the Iceberg ref that stores a branch's head."""
    return MAIN_REF if branch == MASTER else branch


def branch_of_ref(ref: str) -> str:
    """Return the branch whose head an Iceberg ref stores."""
    return MASTER if ref == MAIN_REF else ref


def is_reserved(key: str) -> bool:
    """Return whether only the catalog may write this property."""
    return key.startswith(PREFIX)


def tracked_ids(properties: Mapping[str, str], branch: str, *, default: TrackedIds) -> TrackedIds | None:
    """Return the ids that a branch tracks; None when it tracks none. `default` fills in what a partial record lacks."""
    schema, spec, order = (_number(properties.get(PREFIX + branch + suffix)) for suffix in SUFFIXES)
    if schema is None and spec is None and order is None:
        return None
    return TrackedIds(
        schema_id=default.schema_id if schema is None else schema,
        spec_id=default.spec_id if spec is None else spec,
        order_id=default.order_id if order is None else order,
    )


def tracked_branches(properties: Mapping[str, str]) -> set[str]:
    """List the branches that track at least one id."""
    return {
        key[len(PREFIX) : -len(suffix)]
        for key in properties
        if key.startswith(PREFIX)
        for suffix in SUFFIXES
        if key.endswith(suffix)
    }


def stamp(properties: dict[str, str], branch: str, ids: TrackedIds) -> dict[str, str]:
    """Return the properties with a branch's three ids set; the same object where they are."""
    stamped = {
        PREFIX + branch + SCHEMA_SUFFIX: str(ids.schema_id),
        PREFIX + branch + SPEC_SUFFIX: str(ids.spec_id),
        PREFIX + branch + ORDER_SUFFIX: str(ids.order_id),
    }
    return properties if stamped.items() <= properties.items() else {**properties, **stamped}


def strip(properties: Mapping[str, str], branches: Iterable[str]) -> dict[str, str]:
    """Return the properties without anything these branches tracked."""
    gone = {PREFIX + branch + suffix for branch in branches for suffix in SUFFIXES}
    return {key: value for key, value in properties.items() if key not in gone}


def _number(text: str | None) -> int | None:
    # A hand-written or damaged value counts as absent: the branch then reads what the table says.
    return None if text is None else read_count(text)
