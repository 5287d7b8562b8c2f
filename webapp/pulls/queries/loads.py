"""Datasets that were loaded on the source of a pull request, and whether merging loads their files on the target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.accounts.permissions import check_dataset
from webapp.builds import queries as builds
from webapp.builds.queries import BranchUploads
from webapp.builds.rules.loads import Load, explain_maker, find_repeat
from webapp.core.errors import Conflict, find_refusal
from webapp.datasets import queries as datasets
from webapp.datasets.models import Transaction
from webapp.pulls.rules import states
from webapp.pulls.rules.approvals import LoadFact
from webapp.pulls.rules.loads import Writer, explain_writer
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullDataset, PullRequest


@dataclass(frozen=True)
class LoadedDataset:
    """A dataset that was loaded on the source."""

    row: PullDataset
    uploads: BranchUploads
    now: Transaction | None
    """What the target's readers have; None where that is nothing."""
    made_by: str
    """The transform that makes it on either side; empty where none does."""

    @property
    def is_chosen(self) -> bool:
        """Whether merging loads its files."""
        return self.row.loads_onto is not None

    @property
    def target_transaction(self) -> str:
        """The target's; empty where it has none."""
        return self.now.pk if self.now else ""

    @property
    def has_moved(self) -> bool:
        """Whether the target has other rows than the source began with."""
        return self.target_transaction != self.uploads.start

    @property
    def has_target_moved(self) -> bool:
        """Whether the target has other rows than when somebody chose to load the files there."""
        return self.is_chosen and self.row.loads_onto != self.target_transaction

    @property
    def has_other_rows(self) -> bool:
        """Whether the source has other rows than when somebody chose that: other files than they looked at."""
        return self.is_chosen and self.row.loads_rows != (self.row.after_id or "")

    @property
    def is_undecided(self) -> bool:
        """Whether somebody has to choose again."""
        return self.has_target_moved or self.has_other_rows

    @property
    def problem(self) -> str:
        """Why its files cannot be loaded, in words that go on from its name; empty where they can."""
        if self.made_by:
            return explain_maker(self.made_by)
        return self.uploads.repeat.problem

    def load(self, key: str) -> Load:
        """Return what a build repeats of it."""
        return Load(self.row.path, key, self.uploads.repeat.files)


def list_loaded(pull: PullRequest, rows: Iterable[PullDataset]) -> list[LoadedDataset]:
    """List those of these datasets that were loaded on the source, and of which files make the rows."""
    candidates = {row.path: row for row in rows if row.loads_onto is not None or may_be_loaded(row)}
    if not candidates:
        return []
    ids = [row.after_id for row in candidates.values() if row.after_id]
    after = Transaction.objects.in_bulk(ids)
    heads = {
        path: after[row.after_id]
        for path, row in candidates.items()
        if row.after_id in after and after[row.after_id].branch_name == pull.source
    }
    target = builds.default_chain(repository=pull.repository, branch=pull.target)
    makers = builds.find_makers(list(heads), [pull.source, *target])
    uploads = builds.read_uploads(heads)
    nothing = BranchUploads((), "", find_repeat((), branch=pull.source))
    return [
        LoadedDataset(
            row=row,
            uploads=uploads.get(path, nothing),
            now=read[1] if (read := datasets.resolve_input(path=path, chain=target)) else None,
            made_by=makers[path].function if path in makers else "",
        )
        for path, row in sorted(candidates.items())
        if row.loads_onto is not None or (path in uploads and uploads[path].uploads)
    ]


def may_be_loaded(row: PullDataset) -> bool:
    """Return whether no code of the source makes its rows anew."""
    return row.change == states.MODIFIED and not row.is_rebuilt and row.after_id is not None


def get_loaded(pull: PullRequest, row: PullDataset) -> LoadedDataset:
    """Return a dataset of a pull request that was loaded on its source.

    Raises:
        Conflict: it was not.

    """
    loaded = list_loaded(pull, [row])
    if not loaded:
        raise Conflict(f"Nobody has loaded a file into {row.path} on {pull.source}.", code="not_loaded")
    return loaded[0]


def list_chosen(pull: PullRequest) -> list[LoadedDataset]:
    """List the datasets whose files merging loads."""
    return list_loaded(pull, pull.datasets.loading())


def list_loads(pull: PullRequest, *, key: str) -> list[dict[str, Any]]:
    """List what the build of a merge repeats, as it is ordered."""
    return [loaded.load(key).as_json() for loaded in list_chosen(pull)]


def list_load_facts(pull: PullRequest, rows: Iterable[PullDataset]) -> list[LoadFact]:
    """Return what the rules of merging look at."""
    chosen = [row for row in rows if row.loads_onto is not None]
    return [_read_fact(loaded) for loaded in list_loaded(pull, chosen)]


def _read_fact(loaded: LoadedDataset) -> LoadFact:
    moved = explain_writer(find_writer(loaded)) if loaded.has_target_moved else ""
    return LoadFact(
        path=loaded.row.path,
        onto=loaded.row.loads_onto or "",
        now=loaded.target_transaction,
        moved=moved,
        problem=loaded.problem,
        has_other_rows=loaded.has_other_rows,
    )


def list_uploaders(row: PullDataset) -> set[str]:
    """Return who loaded the files that make the rows of a dataset on the source, whether merging loads them or not."""
    return {upload.by for loaded in list_loaded(row.pull, [row]) for upload in loaded.uploads.uploads}


def list_loaders(pull: PullRequest) -> list[tuple[str, str]]:
    """List who loaded the files that merging loads, or has loaded, each with the path of the dataset."""
    merge = getattr(pull, "merge", None) if pull.state == PullState.MERGED else None
    loads = merge.loads if merge else [loaded.load("").as_json() for loaded in list_chosen(pull)]
    jobs = [file["job"] for load in loads for file in load["files"]]
    written = Transaction.objects.filter(job_id__in=jobs).order_by("pk") if jobs else Transaction.objects.none()
    return list(written.values_list("by", "dataset__path"))


def find_writer(loaded: LoadedDataset) -> Writer | None:
    """Return who wrote what the target has; None where it has nothing."""
    now = loaded.now
    if now is None:
        return None
    origin = builds.describe_transactions([now.pk])[now.pk]
    return Writer(now.by, is_upload=origin.is_upload, is_build=origin.digest is not None)


def find_load_refusal(principal: Principal, pull: PullRequest, paths: Sequence[str]) -> str:
    """Return why somebody may not load files into these datasets on the target; empty where they may."""
    refusals = (find_refusal(check_dataset, principal, path, "write", pull.target) for path in paths)
    return next((refusal for refusal in refusals if refusal), "")
