"""The JobSpecs of the two sides of a pull request, and which datasets differ by them and by data of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from webapp.builds import queries as builds
from webapp.builds.rules.freshness import read_digest
from webapp.core.errors import NotFound
from webapp.core.prepared import Prepared
from webapp.pulls.models import PullRequest, SpecRecord
from webapp.pulls.queries.own import list_own
from webapp.pulls.rules import states
from webapp.pulls.rules.datasets import classify_datasets, find_upstream
from webapp.pulls.rules.states import PullState
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.builds.rules.values import Committed
    from webapp.datasets.models import Transaction
    from webapp.repositories.models import Repository

_SPECS = Prepared(lambda repository, sha: SpecRecord.objects.filter(repository_id=repository, sha=sha), int, str)


class Head(NamedTuple):
    """A branch and its newest commit."""

    branch: str
    sha: str


@dataclass(frozen=True)
class PullSpecs:
    """The JobSpecs of both sides, by output path."""

    head_code: Mapping[str, str]
    """Tokens (`webapp.builds.rules.freshness.make_token`): equal ones mean equal code."""
    head_inputs: Mapping[str, frozenset[str]]
    base_code: Mapping[str, str]
    base_inputs: Mapping[str, frozenset[str]]
    base_sha: str
    """Where the source left the target."""
    changed_files: Mapping[str, list[str]] = field(default_factory=dict)
    """Output path → files that its jobs use while they run and that differ, where the digest does not."""

    @property
    def made_paths(self) -> frozenset[str]:
        """Every dataset that the code of either side makes."""
        return frozenset(self.head_code) | frozenset(self.base_code)

    @property
    def known_paths(self) -> frozenset[str]:
        """Every dataset that either side makes or the source reads."""
        read = frozenset().union(*self.head_inputs.values()) if self.head_inputs else frozenset()
        return self.made_paths | read

    @property
    def changed_paths(self) -> frozenset[str]:
        """Every dataset whose JobSpec differs."""
        both = self.head_code.keys() | self.base_code.keys()
        return frozenset(path for path in both if self.head_code.get(path) != self.base_code.get(path))


@dataclass(frozen=True)
class SourceWork:
    """What a source branch changes."""

    changes: Mapping[str, str]
    """Dataset path → how it changes."""
    own: Mapping[str, Transaction]
    """Dataset path → the source's own newest transaction."""
    loaded: Mapping[str, str]
    """Dataset path → where and by whom data was loaded."""


def compare_specs(repository: Repository, *, source: Head, target: Head) -> PullSpecs:
    """Read the JobSpecs of a source's head, and those where it left the target.

    A new branch that was never published is taken to have those that it began with: it has removed none that is known of.
    """
    head = _read_specs(repository, source)
    base_sha = repositories.find_merge_base(repository, target.sha, source.sha) or target.sha
    base = _read_specs(repository, Head(target.branch, base_sha))
    if not head and not repositories.has_published(repository, source.branch):
        head = base
    head_code, base_code = read_code(repository, (source.sha, head), (base_sha, base))
    return PullSpecs(
        changed_files=base_code.list_changed_files(head_code),
        head_code=head_code.tokens,
        head_inputs={path: frozenset(spec["inputs"]) for path, spec in head.items()},
        base_code=base_code.tokens,
        base_inputs={path: frozenset(spec["inputs"]) for path, spec in base.items()},
        base_sha=base_sha,
    )


def read_code(repository: Repository, *commits: tuple[str, Mapping[str, Any]]) -> list[builds.CodeAtCommit]:
    """Return the code of some commits, each given with its JobSpecs."""
    digests = ((sha, {path: spec["digest"] for path, spec in specs.items()}) for sha, specs in commits)
    return builds.read_code(repository.name, *digests)


def _read_specs(repository: Repository, head: Head) -> Mapping[str, Any]:
    """Return the JobSpecs that a build would use: the record of that commit, else what the branch has published last."""
    record = _SPECS.first(repository.pk, head.sha)
    return record.specs if record else builds.describe_published(repository=repository, branch=head.branch)


def find_work(repository: Repository, *, specs: PullSpecs, branches: Sequence[str], target: str) -> SourceWork:
    """Find which datasets a source changes, by its code and by its data.

    Args:
        repository: of both branches.
        specs: the JobSpecs of both sides.
        branches: the source, then those between it and the target, which its readers fall back to.
        target: the head of the target.

    """
    own, loaded = list_own(repository=repository, branches=branches, paths=specs.known_paths)
    by_code = classify_datasets(
        head=specs.head_code, base=specs.base_code, built=(), inputs=specs.head_inputs, loaded=loaded
    )
    candidates = {path: head for path, head in own.items() if path not in by_code and path not in loaded}
    work = _WorkReader(repository, specs, branches, target)
    changes = classify_datasets(
        head=specs.head_code,
        base=specs.base_code,
        built=set(own),
        inputs=specs.head_inputs,
        loaded=loaded,
        refreshed=candidates.keys() - work.find_own(candidates),
    )
    return SourceWork(changes, own, loaded)


def list_rebuilt_by(repository: Repository, branch: str) -> frozenset[str] | None:
    """Return the datasets that a build of a branch is for: those that it changes, or that are made from such.

    Not what was loaded over unchanged code, which a build would replace. None for the default branch, which is compared
    with nothing.
    """
    if branch == repository.default_branch:
        return None
    pull = PullRequest.objects.filter(repository=repository, source=branch, state=PullState.OPEN).first()
    chain = builds.default_chain(repository=repository, branch=branch)
    target = pull.target if pull else chain[1]
    sha, target_sha = (repository.git.find_head(name) for name in (branch, target))
    if not target_sha:
        return None
    specs = compare_specs(repository, source=Head(branch, sha or target_sha), target=Head(target, target_sha))
    work = find_work(repository, specs=specs, branches=[branch], target=target_sha)
    files = work.loaded.keys() - specs.changed_paths
    return frozenset(path for path, change in work.changes.items() if change != states.REFRESHED) - files


@dataclass(frozen=True)
class _WorkReader:
    """Tells rows that a source's code or loaded data made from those that the target's code makes of the target's data."""

    repository: Repository
    specs: PullSpecs
    branches: Sequence[str]
    target: str

    def find_own(self, heads: Mapping[str, Transaction]) -> set[str]:
        """Return those of these datasets whose rows, or rows that they were made from, are the source's own work."""
        verdicts: dict[str, bool] = {}
        read: dict[str, set[str]] = {}
        waiting = {head.pk: path for path, head in heads.items()}
        while waiting:
            described = builds.describe_transactions(waiting)
            following: dict[str, str] = {}
            for pk, path in waiting.items():
                committed = described[pk]
                verdicts[pk] = self._is_own(path, committed)
                read[pk] = set(committed.inputs.values()) if committed.branch in self.branches else set()
                following |= {source: name for name, source in committed.inputs.items() if source in read[pk]}
            waiting = {pk: path for pk, path in following.items() if pk not in verdicts}
        return {
            path
            for path, head in heads.items()
            if any(verdicts.get(pk) for pk in (head.pk, *find_upstream([head.pk], read)))
        }

    def _is_own(self, path: str, committed: Committed) -> bool:
        if committed.branch not in self.branches:
            return False
        if committed.digest is None:
            return True
        return committed.token != self.specs.base_code.get(path) and not self._is_of_target(path, committed)

    def _is_of_target(self, path: str, committed: Committed) -> bool:
        """Return whether the code is what the target had where the job's commit left it: the source has taken newer since."""
        left = _read_where_left(self.repository, self.target, committed.sha)
        return left is not None and left.get(path, {}).get("digest") == committed.digest


def has_taken(pull: PullRequest, path: str, after: Transaction, base_code: Mapping[str, str]) -> bool:
    """Return whether the source has taken code of the target that its rows of a dataset were not made with yet.

    Args:
        pull: the pull request.
        path: the dataset.
        after: its rows on the source.
        base_code: output path → token of its code where the source left the target.

    """
    sha = builds.describe_transactions([after.pk])[after.pk].sha
    left = _read_where_left(pull.repository, pull.base_sha, sha) if sha else None
    if left is None:
        return False
    above = find_upstream([path], {output: spec["inputs"] for output, spec in left.items()})
    return any(
        left[output]["digest"] != read_digest(base_code.get(output, "")) for output in {path, *above} & left.keys()
    )


def _read_where_left(repository: Repository, target: str, sha: str) -> Mapping[str, Any] | None:
    """Return the JobSpecs where a commit left the target; None where nobody knows them."""
    try:
        left = repositories.find_merge_base(repository, target, sha)
    except NotFound:  # one is gone, as after a forced push
        return None
    record = _SPECS.first(repository.pk, left) if left else None
    return record.specs if record else None
