"""What is ordered of a build: one value from whoever asks to the row, and from the row to another try."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from webapp.builds.models import Build

if TYPE_CHECKING:
    from webapp.repositories.models import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOrder:
    """What somebody wants built, and how; all but the fallbacks are columns of the build."""

    branch: str
    """The only branch on which anything is written."""
    targets: Sequence[str]
    """Paths of the datasets to build."""
    fallbacks: Sequence[str] | None = None
    """Branches to read from where the build branch has nothing; from Git's ancestry when None."""
    repository: Repository | None = None
    """Whose head and ancestry count; the one that owns the first target when None."""
    upstream: bool = False
    """Build everything above the targets as well."""
    force: bool = False
    """Run jobs that are fresh, too."""
    forced: Sequence[str] = ()
    """Outputs whose jobs run even when fresh; all of them with `force`."""
    pins: Mapping[str, str] = field(default_factory=dict)
    """Input path → id of the transaction to read instead of the newest."""
    loads: Sequence[Mapping[str, Any]] = ()
    """Uploads that are repeated first (`rules.loads.Load.as_json`); their datasets are among the targets."""
    code_sha: str = ""
    """Commit whose JobSpecs count before those of the chain; for a branch that Git does not have."""
    title: str = ""
    """What people call it; the head's subject by default."""

    @classmethod
    def of(cls, build: Build) -> Self:
        """Return what a build was ordered as."""
        return cls(fallbacks=build.chain[1:], **{name: getattr(build, name) for name in COLUMNS})

    def make_build(self, *, chain: Iterable[str], **more: Any) -> Build:
        """Return a build of this order, not saved, with more of its columns."""
        return Build(chain=list(chain), **{name: getattr(self, name) for name in COLUMNS}, **more)


COLUMNS = [column.name for column in fields(BuildOrder) if column.name != "fallbacks"]
