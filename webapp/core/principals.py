"""Who is asking, decided once at the door, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


def start_of_folders(staging: str) -> str:
    """Return how the names of the folders begin that the tries of a job write, by the job's staging branch."""
    return f"job-{staging.rpartition('/')[2]}-"


def name_folder(*, staging: str, job: str, attempt: int) -> str:
    """Return the name of the folders that one attempt of a job writes; uploads into one open transaction share its staging branch."""
    own = "" if staging.endswith(f"/{job}") else f"{job}-"
    return f"{start_of_folders(staging)}{own}{attempt}"


@dataclass(frozen=True)
class JobScope:
    """What the token of one job may see and write."""

    job_id: str
    branch: str
    """The staging branch that it writes: `_job/<job id>`."""
    base_branch: str
    """The build branch."""
    chain: tuple[str, ...]
    """Build branch, then fallbacks."""
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Table → the pinned pointer: transaction, branch, snapshot_id, schema_id, spec_id, order_id."""
    outputs: tuple[str, ...] = ()
    """Tables that it writes."""
    attempt: int = 1
    """Which try of the job it is: each one writes into folders of its own."""
    repository: str = ""
    """The repository whose code runs: it decides which hidden columns the job may read. Empty: none of them."""

    @property
    def folder(self) -> str:
        """The name of the folders below its tables' `data` and `metadata` that it alone may write."""
        return name_folder(staging=self.branch, job=self.job_id, attempt=self.attempt)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON, as tokens store it."""
        return {
            "job_id": self.job_id,
            "branch": self.branch,
            "base_branch": self.base_branch,
            "chain": list(self.chain),
            "inputs": {table: dict(pin) for table, pin in self.inputs.items()},
            "outputs": list(self.outputs),
            "attempt": self.attempt,
            "repository": self.repository,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JobScope:
        """Read what `as_json` wrote."""
        return cls(
            job_id=data["job_id"],
            branch=data["branch"],
            base_branch=data["base_branch"],
            chain=tuple(data["chain"]),
            inputs=data["inputs"],
            outputs=tuple(data["outputs"]),
            attempt=data.get("attempt", 1),  # tokens of an older version have none
            repository=data.get("repository", ""),  # likewise
        )


@dataclass(frozen=True)
class Principal:
    """A person, or a job that acts for one."""

    user_id: int
    username: str
    is_admin: bool = False
    scopes: frozenset[str] = frozenset()
    """Empty means everything that the person may do."""
    job: JobScope | None = None
    expires_at: datetime | None = field(default=None, compare=False)
    """When the token that was shown holds no longer, however often it is looked up; None means never."""
