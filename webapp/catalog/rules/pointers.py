"""Where a branch points on one table: its head and the three ids it tracks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webapp.catalog.rules.branch_properties import TrackedIds
from webapp.catalog.rules.iceberg import History


@dataclass(frozen=True, slots=True)
class BranchState:
    """A branch on one table: its head and the three ids it tracks."""

    head: int | None
    ids: TrackedIds


@dataclass(frozen=True, slots=True)
class Pointer:
    """A branch's state in the flat form that other apps store."""

    snapshot_id: int | None
    schema_id: int
    spec_id: int
    order_id: int

    @classmethod
    def of(cls, state: BranchState) -> "Pointer":
        """Return the pointer to a state."""
        return cls(state.head, state.ids.schema_id, state.ids.spec_id, state.ids.order_id)

    @property
    def state(self) -> BranchState:
        """The state it points to."""
        return BranchState(head=self.snapshot_id, ids=TrackedIds(self.schema_id, self.spec_id, self.order_id))


@dataclass(frozen=True, slots=True)
class BranchPlace:
    """Where a branch stood, with what its ids meant: maintenance may remove that once the branch is deleted."""

    pointer: Pointer
    definitions: Mapping[History, Any]
    """The schema, the partition spec and the sort order as the metadata wrote them, by the names of their histories."""
