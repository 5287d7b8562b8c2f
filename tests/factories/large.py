"""An installation of any size as rows, beside whatever is there: for measuring pages, not for building.

The rows are written at once and not through services; what Git must have for a page to open is real.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.db.models import Model, QuerySet
from django.test import Client

from tests.factories import datasets as clients
from webapp.accounts.models import AuditEntry, Folder, RepositoryRole, User
from webapp.accounts.queries import principal_for_user
from webapp.builds.models import Build, Job, JobInput, JobOutput, PublishedInput, PublishedOutput, PublishedSpec
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.states import ComparisonState
from webapp.core import clock
from webapp.datasets.models import Dataset, DatasetBranch, Transaction
from webapp.git.values import Change
from webapp.notices.models import Notification
from webapp.previews.models import CodePreview
from webapp.previews.rules.states import PreviewState
from webapp.pulls.models import (
    Assignee,
    Comment,
    Label,
    PendingComment,
    PullDataset,
    PullLabel,
    PullRequest,
    Review,
    ReviewRequest,
    TimelineEvent,
)
from webapp.repositories import services
from webapp.repositories.models import Publication, Repository
from webapp.sql import models as sql
from webapp.sql.rules.states import QueryState

if TYPE_CHECKING:
    from webapp.git.repository import GitRepository

Query = tuple[str, Any]
"""SQL and its parameters."""
FILE = "pipelines/part_0/step_0.py"
"""The first of those that the large pull request changes."""
LISTED = 2
"""So few that every list of the REST API has a page of them."""
BATCH = 5_000
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Size:
    """How much there is; what is of one thing only is all in the first repository."""

    repositories: int
    pulls: int
    jobs: int
    datasets: int
    transactions: int
    specs: int
    branches: int
    files: int
    """Changed by the one large pull request."""
    comments: int
    """On that one."""
    build_jobs: int
    """Of the one large build."""
    audit: int
    """Entries of the audit log."""
    queries: int
    """Of the reader."""


SMALL = Size(
    repositories=2,
    pulls=300,
    jobs=500,
    datasets=12,
    transactions=48,
    specs=12,
    branches=4,
    files=3,
    comments=5,
    build_jobs=6,
    audit=120,
    queries=3,
)
"""So small that nothing has a second page but what a page describes one by one, such as the reader's own pull requests."""
MEDIUM = Size(
    repositories=40,
    pulls=1_000,
    jobs=2_500,
    datasets=400,
    transactions=8_000,
    specs=1_500,
    branches=120,
    files=300,
    comments=200,
    build_jobs=400,
    audit=2_000,
    queries=500,
)
"""Large enough that every list has more than a page, and still cheap to write in `make test`."""
BIG = Size(
    repositories=201,
    pulls=10_000,
    jobs=100_000,
    datasets=5_000,
    transactions=1_000_000,
    specs=14_784,
    branches=500,
    files=2_900,
    comments=1_000,
    build_jobs=2_000,
    audit=100_000,
    queries=20_000,
)


@dataclass(frozen=True)
class Large:
    """What was seeded, and the addresses of its largest pages."""

    reader: User
    admin: User
    repository: Repository
    dataset: Dataset
    build: Build
    pull: PullRequest
    query: sql.Query
    preview: CodePreview

    @property
    def pages(self) -> dict[str, str]:
        """Return name → address of every page whose cost may grow."""
        name = self.repository.name
        pull = f"/r/{name}/pulls/{self.pull.number}"
        dataset = f"/d{self.dataset.path}"
        return {
            "home": "/",
            "repositories": "/repositories",
            "files": f"/r/{name}/",
            "find a file": f"/r/{name}/find/{self.pull.source}",
            "a file": f"/r/{name}/blob/{self.pull.source}/{FILE}",
            "edit a file": f"/r/{name}/edit/{self.pull.source}/{FILE}",
            "new file": f"/r/{name}/new/{self.pull.source}/pipelines",
            "new repository": "/repositories/new",
            "commits": f"/r/{name}/commits/{self.pull.source}",
            "a commit": f"/r/{name}/commit/{self.pull.head_sha}",
            "two refs": f"/r/{name}/compare?base=master&head={self.pull.source}",
            "branches": f"/r/{name}/branches",
            "JobSpecs": f"/r/{name}/jobspecs",
            "settings": f"/r/{name}/settings",
            "datasets": "/datasets",
            "datasets of a repository": f"/r/{name}/datasets",
            "a dataset": dataset,
            "its schema": f"{dataset}?tab=schema",
            "its transactions": f"{dataset}?tab=history",
            "its branches": f"{dataset}?tab=branches",
            "its catalog": f"{dataset}?tab=catalog",
            "its lineage": f"{dataset}?tab=lineage",
            "its comparisons": f"{dataset}?tab=compare",
            "new dataset": "/datasets/new",
            "SQL": f"/r/{name}/sql",
            "a query": f"/r/{name}/sql/{self.query.pk}",
            "a preview of code": f"/r/{name}/previews/{self.preview.pk}",
            "my settings": "/settings",
            "my notifications": "/settings/notifications",
            "my tokens": "/settings/tokens",
            "my profile": "/settings/profile",
            "inbox": "/inbox?state=all",
            "upload": "/upload",
            "builds": "/builds",
            "builds of a repository": f"/r/{name}/builds",
            "new build": f"/builds/new?repository={name}",
            "a build": f"/builds/{self.build.pk}",
            "pull requests": "/pulls",
            "pull requests of a repository": f"/r/{name}/pulls",
            "labels of a repository": f"/r/{name}/labels",
            "merge queue": f"/r/{name}/queue",
            "new pull request": f"/r/{name}/pulls/new",
            "new pull request of a branch": f"/r/{name}/pulls/new?source={self.pull.source}",
            "a pull request": pull,
            "its commits": f"{pull}/commits",
            "its code": f"{pull}/code",
            "its conflicts": f"{pull}/conflicts",
            "its schemas": f"{pull}/schema",
            "its data": f"{pull}/data",
            "its builds": f"{pull}/builds",
            "its checks": f"{pull}/checks",
            "its graph": f"{pull}/lineage",
            "activity": "/activity",
            "search": "/search?q=large",
            "search of many": "/search?q=change",
        }

    @property
    def parts(self) -> dict[str, str]:
        """Return name → address of what pages ask for by themselves, or while somebody types."""
        name, pull = self.repository.name, f"/r/{self.repository.name}/pulls/{self.pull.number}"
        new_build = f"/builds/new?repository={name}&chosen=1"
        return {
            "lineage of a dataset": f"/datasets/{self.dataset.pk}/lineage",
            "freshness of a dataset": f"/datasets/{self.dataset.pk}/lineage?fragment=freshness",
            "comparison of a dataset": f"/datasets/{self.dataset.pk}/compare",
            "a dataset over time": f"/datasets/{self.dataset.pk}/trend",
            "branches of a dataset": f"/d{self.dataset.path}?fragment=branches&find=change",
            "branches to compare": f"/d{self.dataset.path}?fragment=options&find=change",
            "name of a new branch": f"/r/{name}/branches/check?name=change-new",
            "branches of a picker": f"/r/{name}/branches/options?view=tree&find=change",
            "branches of a select": f"/r/{name}/branches/options?view=select&find=change",
            "branches to build on": f"{new_build}&fragment=branches&find=change",
            "branches to query": f"/r/{name}/sql?fragment=branches&find=change",
            "branches to compare a query with": f"/r/{name}/sql?fragment=bases&find=change",
            "datasets to build": f"{new_build}&fragment=targets&q=s0",
            "plan of a build": f"{new_build}&downstream=1&target=/{name}/s00000",
            "progress of a build": f"/builds/{self.build.pk}?fragment=live",
            "builds beside files": f"/r/{name}/builds?fragment=sidebar",
            "JobSpecs beside files": f"/r/{name}/jobspecs?fragment=sidebar",
            "merge box": f"{pull}/merge-box",
            "news of a pull request": f"{pull}/news",
            "server beside home": "/home/server",
        }

    @property
    def admin_pages(self) -> dict[str, str]:
        """Return name → address of pages that admins alone may see."""
        return {
            "audit log": "/settings/audit",
            "users": "/settings/users",
            "a user": f"/settings/users/{self.reader.username}",
            "REST: audit log": f"/api/v1/audit?limit={LISTED}",
            "REST: users": f"/api/v1/users?limit={LISTED}",
            "REST: groups": f"/api/v1/groups?limit={LISTED}",
            "REST: my profile": "/api/v1/profile",
            "REST: my sessions": f"/api/v1/sessions?limit={LISTED}",
            "REST: tokens of a user": f"/api/v1/users/{self.reader.username}/tokens?limit={LISTED}",
            "REST: webhooks": f"/api/v1/repositories/{self.repository.name}/webhooks?limit={LISTED}",
        }

    @property
    def lists(self) -> dict[str, str]:
        """Return name → address of the lists of the REST API, and of what has lists inside."""
        api = "/api/v1"
        repository, dataset = f"{api}/repositories/{self.repository.name}", f"{api}/datasets/{self.dataset.pk}"
        pull = f"{repository}/pulls/{self.pull.number}"
        lists = {
            "notifications": f"{api}/notifications",
            "repositories": f"{api}/repositories",
            "branches": f"{repository}/branches",
            "commits": f"{repository}/commits?branch={self.pull.source}",
            "JobSpecs": f"{repository}/jobspecs",
            "members": f"{repository}/members",
            "datasets": f"{api}/datasets",
            "branches of a dataset": f"{dataset}/branches",
            "transactions": f"{dataset}/transactions",
            "builds": f"{api}/builds",
            "pull requests": f"{repository}/pulls",
            "merge queue": f"{repository}/queue",
            "commits of a pull request": f"{pull}/commits",
            "its files": f"{pull}/files",
            "its datasets": f"{pull}/datasets",
            "its timeline": f"{pull}/timeline",
            "its comments": f"{pull}/comments",
            "its pending comments": f"{pull}/pending-comments",
            "its reviewers": f"{pull}/reviewers",
            "its reviews": f"{pull}/reviews",
            "its checks": f"{pull}/checks",
            "deleted branches of a dataset": f"{dataset}/deleted-branches",
            "protections": f"{repository}/protections",
            "statuses": f"{repository}/commits/{self.pull.head_sha}/statuses",
            "queries": f"{repository}/queries",
            "previews of code": f"{repository}/previews",
            "labels": f"{repository}/labels",
            "tokens": f"{api}/tokens",
        }
        return {
            f"REST: {name}": f"{address}{'&' if '?' in address else '?'}limit={LISTED}"
            for name, address in lists.items()
        }

    @property
    def all_parts(self) -> tuple[dict[str, str], ...]:
        """Return all names and addresses, by who may ask and how."""
        return self.pages, self.parts, self.lists, self.things, self.admin_pages

    @property
    def things(self) -> dict[str, str]:
        """Return name → address of what the REST API says of one thing."""
        api = "/api/v1"
        repository, dataset = f"{api}/repositories/{self.repository.name}", f"{api}/datasets/{self.dataset.pk}"
        pull, branch = f"{repository}/pulls/{self.pull.number}", self.pull.source
        first = self.dataset.branches.order_by("pk")[0]
        things = {
            "my notifications": f"{api}/notifications/settings",
            "watch of a repository": f"{repository}/watch",
            "watch of a dataset": f"{dataset}/watch",
            "a repository": repository,
            "a branch": f"{repository}/branches/{branch}",
            "a commit": f"{repository}/commits/{self.pull.head_sha}",
            "two refs": f"{repository}/compare?base=master&head={branch}",
            "a folder": f"{repository}/contents/?ref={branch}",
            "a file": f"{repository}/contents/{FILE}?ref={branch}",
            "a dataset": dataset,
            "a branch of a dataset": f"{dataset}/branches/{first.name}",
            "a transaction": f"{dataset}/transactions/{self.dataset.transactions.order_by('pk')[0].pk}",
            "lineage": f"{dataset}/lineage",
            "a dataset over time": f"{dataset}/trend",
            "a build": f"{api}/builds/{self.build.pk}",
            "a job": f"{api}/jobs/{self.build.jobs.order_by('pk')[0].pk}",
            "a pull request": pull,
            "its graph": f"{pull}/lineage",
            "a query": f"{repository}/queries/{self.query.pk}",
            "a preview of code": f"{repository}/previews/{self.preview.pk}",
            "a comment": f"{pull}/comments/{self.pull.comments.order_by('pk')[0].pk}",
        }
        return {f"REST: {name}": address for name, address in things.items()}


def seed(size: Size, *, prefix: str = "large") -> Large:
    """Write an installation of this size, and a reader who is a writer in each of its repositories."""
    reader, other, admin = (
        User.objects.create_user(f"{prefix}-{name}", password=f"{prefix}-{name}-1", is_superuser=name == "admin")
        for name in ("me", "you", "admin")
    )
    repositories = _seed_repositories(size, prefix, owner=other)
    RepositoryRole.objects.bulk_create(
        [
            RepositoryRole(user=user, repository=repository.name, role="writer")
            for repository in repositories
            for user in (reader, other)
            if (user, repository) != (other, repositories[0])
        ]
    )
    heads = _seed_branches(size, repositories[0], by=other)
    datasets = _seed_datasets(size, repositories, by=other)
    _seed_specs(size, repositories)
    builds = _seed_builds(size, repositories, datasets, users=(reader, other))
    pulls = _seed_pulls(size, repositories, datasets, heads, users=(reader, other))
    _seed_audit(size, datasets, by=other)
    _seed_notifications(pulls, builds, to=reader)
    return Large(
        reader=reader,
        admin=admin,
        repository=repositories[0],
        dataset=datasets[0],
        build=builds[0],
        pull=pulls[0],
        query=_seed_queries(size, repositories[0], datasets[0], by=reader),
        preview=_seed_previews(size, repositories[0], datasets[0], head=pulls[0].head_sha, by=reader),
    )


def _seed_queries(size: Size, repository: Repository, dataset: Dataset, *, by: User) -> sql.Query:
    """Write queries that came to nothing, so that none has rows to read."""
    table = {"names": [dataset.path], "path": dataset.path, "branch": "master", "transaction": "0" * 32}
    row = {"repository": repository, "by": by, "branch": "master", "sql": f'SELECT * FROM "{dataset.path}"'}
    _write(sql.Query(**row, tables=[table], state=QueryState.FAILED, error="No.") for _ in range(size.queries))
    return sql.Query.objects.filter(repository=repository).latest("pk")


def _seed_previews(size: Size, repository: Repository, dataset: Dataset, *, head: str, by: User) -> CodePreview:
    """Write previews that came to nothing, so that none has rows to read."""
    pinned: dict[str, Any] = {"path": dataset.path, "branch": "master", "transaction": "0" * 32, "masked": []}
    table = {**pinned, "rows": None, "is_whole": None}
    row = {"repository": repository, "by": by, "branch": "master", "head": head, "file": FILE, "tables": [table]}
    _write(CodePreview(**row, state=PreviewState.FAILED, error="No.") for _ in range(size.queries))
    return CodePreview.objects.filter(repository=repository).latest("pk")


def _write(rows: Iterable[Model]) -> None:
    """Write rows of one kind in batches, so that a million of them are never in memory."""
    waiting = iter(rows)
    while batch := list(islice(waiting, BATCH)):
        QuerySet(type(batch[0])).bulk_create(batch)


def _seed_repositories(size: Size, prefix: str, *, owner: User) -> list[Repository]:
    """Make one repository as people do, and copies of its folder under the names of the others."""
    first = services.create_repository(name=f"{prefix}-0", template="empty", by=principal_for_user(owner))
    head = first.git.get_head(first.default_branch)
    _write(
        Repository(
            name=f"{prefix}-{number}",
            description=f"The pipeline of group {number}",
            created_by=owner,
            uid=first.uid,
            generation=first.generation,
        )
        for number in range(1, size.repositories)
    )
    others = list(Repository.objects.filter(name__startswith=f"{prefix}-").exclude(pk=first.pk).order_by("pk"))
    for repository in others:
        shutil.copytree(first.path, repository.path)
    _write(Folder(name=repository.name, repository=repository.name) for repository in others)
    Publication.objects.filter(repository=first).delete()
    repositories = [first, *others]
    _write(
        Publication(repository=repository, branch=repository.default_branch, sha=head, status="published", jobspecs=7)
        for repository in repositories
    )
    return repositories


def _seed_branches(size: Size, repository: Repository, *, by: User) -> dict[str, str]:
    """Make branches, and on the first of them the commit that changes many files; return its heads."""
    by_whom = principal_for_user(by)
    services.create_branch(repository=repository, name="change-0", by=by_whom)
    changes = [
        Change(path=f"pipelines/part_{number // 50}/step_{number}.py", content=f"step = {number}\n".encode())
        for number in range(size.files)
    ]
    services.commit_files(
        repository=repository,
        branch="change-0",
        message="Change many files",
        changes=changes,
        expected_head=None,
        by=by_whom,
    )
    git = repository.git
    heads = {"change-0": git.get_head("change-0"), "master": git.get_head("master")}
    _make_refs(git, {f"change-{number}": heads["master"] for number in range(1, size.branches)})
    return heads


def _make_refs(git: GitRepository, heads: dict[str, str]) -> None:
    lines = "".join(f"create refs/heads/{name} {head}\n" for name, head in heads.items())
    subprocess.run(["git", "-C", str(git.path), "update-ref", "--stdin"], input=lines, text=True, check=True)


def _seed_datasets(size: Size, repositories: list[Repository], *, by: User) -> list[Dataset]:
    """Make the first dataset as clients do, with all the branches, and rows of the others."""
    names = [repository.name for repository in repositories]
    first = clients.a_dataset(f"/{names[0]}/t0", by=by)
    clients.write(clients.a_client(by), first, rows=3, total=3)
    paths = [(names[number % len(names)], f"t{number}") for number in range(1, size.datasets)]
    _write(Dataset(path=f"/{top}/{name}", table=f"{top}.{name}", created_by=by) for top, name in paths)
    datasets = list(Dataset.objects.filter(folder__in=names).order_by("pk"))
    _write(DatasetBranch(dataset=dataset, name="master", name_lower="master") for dataset in datasets[1:])
    masters = list(
        DatasetBranch.objects.filter(dataset__in=[dataset.pk for dataset in datasets])
        .select_related("transaction")
        .order_by("dataset_id")
    )
    count = size.transactions // size.datasets
    _write_transactions(masters, count=count, by=by)
    for branch in masters:
        branch.transaction_id = _transaction_id(branch, count)
    DatasetBranch.objects.bulk_update(masters, ["transaction"], batch_size=500)
    others = [f"change-{number}" for number in range(size.branches)]
    _write(DatasetBranch(dataset=first, name=name, name_lower=name, parent=masters[0]) for name in others)
    return datasets


def _transaction_id(branch: DatasetBranch, number: int) -> str:
    return f"{branch.dataset_id:07d}{number:05d}"


def _write_transactions(branches: list[DatasetBranch], *, count: int, by: User) -> None:
    """Write so many transactions of each branch; those that stand on a client's show what it wrote.

    There are a million of them: each round of one of each branch is written from the values of its first.
    """
    now = clock.now()
    fields = Transaction._meta.concrete_fields
    columns = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    sql = f"INSERT INTO {Transaction._meta.db_table} ({columns}) VALUES ({', '.join(['%s'] * len(fields))})"
    own = {field.attname: place for place, field in enumerate(fields)}
    for number in range(1, count + 1):
        at = now - (count - number) * MINUTE
        sample = Transaction(
            branch_name="master",
            number=number,
            type="SNAPSHOT",
            state="COMMITTED",
            by=by.username,
            schema_id=0,
            spec_id=0,
            order_id=0,
            summary={"rows": 1000 + number, "files": 1, "bytes": 4096},
            started_at=at,
            closed_at=at,
        )
        values = [field.get_db_prep_save(getattr(sample, field.attname), connection) for field in fields]
        rows = []
        for branch in branches:
            first = branch.transaction
            if first and number == 1:
                continue
            row = values.copy()
            row[own["id"]] = _transaction_id(branch, number)
            row[own["dataset_id"]] = branch.dataset_id
            row[own["dataset_branch_id"]] = branch.pk
            row[own["snapshot_id"]] = first.snapshot_id if first else number
            if number > 1:
                row[own["parent_id"]] = first.pk if first and number == 2 else _transaction_id(branch, number - 1)  # noqa: PLR2004 - the second
            rows.append(row)
        with connection.cursor() as cursor:
            cursor.executemany(sql, rows)


def _seed_audit(size: Size, datasets: list[Dataset], *, by: User) -> None:
    now = clock.now()
    _write(
        AuditEntry(
            at=now - (size.audit - number) * MINUTE,
            actor=by.username,
            verb=f"verb_{number % 20}",
            object=datasets[number % len(datasets)].path,
        )
        for number in range(size.audit)
    )


def _seed_specs(size: Size, repositories: list[Repository]) -> None:
    """Publish JobSpecs in chains of five, each on a dataset of its repository."""
    head = repositories[0].git.get_head("master")
    rows = []
    for number in range(size.specs):
        repository = repositories[number % len(repositories)]
        place = number // len(repositories)
        path = f"/{repository.name}/s{place:05d}"
        before = f"/{repository.name}/s{place - 1:05d}" if place % 5 else f"/{repository.name}/t0"
        rows.append(
            PublishedSpec(
                repository=repository,
                branch="master",
                sha=head,
                changed_sha=head,
                function=f"pipelines.m:s{place:05d}",
                file="pipelines/m.py",
                line=place + 1,
                profile="light",
                digest=f"d{place}",
                spec={
                    "inputs": [{"name": "before", "path": before, "branch": None}],
                    "outputs": [{"name": "after", "path": path, "checks": []}],
                    "size": "small",
                    "incremental": False,
                    "description": "One of many",
                },
            )
        )
    _write(rows)
    published = PublishedSpec.objects.filter(repository__in=repositories)
    for model, declared in ((PublishedOutput, "outputs"), (PublishedInput, "inputs")):
        _write(model(spec=spec, branch="master", path=spec.spec[declared][0]["path"]) for spec in published.iterator())


def _seed_builds(
    size: Size, repositories: list[Repository], datasets: list[Dataset], *, users: tuple[User, User]
) -> list[Build]:
    """Make one build of many jobs and many of five; every tenth failed, three run."""
    count = max(4, (size.jobs - size.build_jobs) // 5)
    now = clock.now()
    states = ["COMPLETED", "RUNNING", "RUNNING", "RUNNING"] + [
        "FAILED" if n % 10 == 0 else "COMPLETED" for n in range(count)
    ]
    _write(
        Build(
            branch="master" if number % 2 else f"change-{number}",
            chain=["master"],
            targets=[datasets[number % len(datasets)].path],
            repository=repositories[number % len(repositories)],
            title=f"Build number {number}",
            state=states[number],
            by=users[number % 2],
            has_begun=True,
            created_at=now - (count - number) * MINUTE,
            started_at=now - (count - number) * MINUTE,
            finished_at=None if states[number] == "RUNNING" else now,
        )
        for number in range(count)
    )
    builds = list(Build.objects.filter(repository__in=repositories).order_by("pk"))
    jobs = [job for build in builds for job in _list_jobs(build, size.build_jobs if build == builds[0] else 5)]
    _write(jobs)
    _write(JobOutput(job=job, name="after", path=datasets[n % len(datasets)].path) for n, job in enumerate(jobs))
    _write(
        JobInput(
            job=job,
            name="before",
            path=datasets[n % len(datasets)].path,
            branch="master",
            from_job=jobs[n - 1] if job.number > 1 else None,
        )
        for n, job in enumerate(jobs)
    )
    return builds


def _list_jobs(build: Build, count: int) -> Iterator[Job]:
    for number in range(1, count + 1):
        failed = build.state == "FAILED" and number == count
        runs = build.state == "RUNNING" and number == count
        yield Job(
            build=build,
            number=number,
            repository=build.repository.name if build.repository else "",
            function=f"pipelines.m:f{number}",
            file="pipelines/m.py",
            line=number,
            state="FAILED" if failed else "RUNNING" if runs else "COMPLETED",
            attempt=1,
            lease_until=build.created_at + timedelta(days=1) if runs else None,
            error={"message": "It broke"} if failed else None,
            reason="It broke" if failed else "",
            started_at=build.created_at + number * timedelta(seconds=1),
            finished_at=None if runs else build.created_at + (number + 1) * timedelta(seconds=1),
        )


def _break_schema(pull: PullRequest) -> None:
    """Have a pull request take a column out of a dataset that JobSpecs of its repository read."""
    row = pull.datasets.filter(path__in=PublishedInput.objects.values("path")).order_by("pk")[0]
    field = {"id": 1, "name": "late_share", "type": "double", "required": False}
    row.comparison = Comparison.objects.create(
        identity=f"{pull.pk:064d}",
        dataset=row.dataset,
        state=ComparisonState.FAILED,  # its schemas are there, and no file of rows
        schema={"status": "breaking", "before": {"schema": {"fields": [field]}}, "after": {"schema": {"fields": []}}},
    )
    row.schema_status = "breaking"
    row.save()


def _seed_pulls(
    size: Size,
    repositories: list[Repository],
    datasets: list[Dataset],
    heads: dict[str, str],
    *,
    users: tuple[User, User],
) -> list[PullRequest]:
    """Make pull requests, one in ten of them open; the first has the branch of many files and many comments."""
    now = clock.now()
    pulls = [
        PullRequest(
            repository=repositories[number % len(repositories)],
            number=number // len(repositories) + 1,
            title=f"Change number {number}",
            source="change-0" if number == 0 else f"change-{number}",
            target="master",
            state="open" if number % 10 in (0, 5) else "closed",
            author=users[1] if number % 10 == 0 else users[0],
            head_sha=heads["change-0"] if number == 0 else heads["master"],
            base_sha=heads["master"],
            created_at=now - number * MINUTE,
            updated_at=now - number * MINUTE,
        )
        for number in range(size.pulls)
    ]
    _write(pulls)
    _write(
        PullDataset(pull=pull, path=dataset.path, dataset=dataset, change="modified")
        for number, pull in enumerate(pulls)
        for dataset in dict.fromkeys([datasets[number % len(datasets)], datasets[(number + 1) % len(datasets)]])
    )
    _break_schema(pulls[0])
    _write(TimelineEvent(pull=pull, kind="opened", actor=pull.author.username, at=pull.created_at) for pull in pulls)
    _write(Review(pull=pull, reviewer=users[0], verdict="approve", created_at=pull.created_at) for pull in pulls[1::3])
    _write(
        Comment(pull=pull, author=users[1], body=f"Remark {number}", created_at=now - number * MINUTE)
        for pull, count in [(pulls[0], size.comments), *((pull, 1) for pull in pulls[1::4])]
        for number in range(count)
    )
    labels = [Label(repository=repository, name="data", tone="ok") for repository in repositories]
    _write(labels)
    by_repository = {label.repository_id: label for label in labels}
    _write(PullLabel(pull=pull, label=by_repository[pull.repository_id]) for pull in pulls)
    _write(Assignee(pull=pull, user=users[1]) for pull in pulls)
    _write(ReviewRequest(pull=pull, user=users[0]) for pull in pulls[::5])
    _write(
        PendingComment(pull=pulls[0], author=users[0], body=f"Remark {number}")
        for number in range(max(1, size.comments // 10))
    )
    return pulls


def _seed_notifications(pulls: list[PullRequest], builds: list[Build], *, to: User) -> None:
    """Tell the reader of each pull request and build; one in five is unread."""
    told = [{"pull": pull, "repository": pull.repository, "fact": "pull_opened"} for pull in pulls]
    told += [{"build": build, "repository": build.repository, "fact": "build_failed"} for build in builds]
    _write(
        Notification(user=to, reason="watching", state="read" if number % 5 else "unread", actor="you", **about)
        for number, about in enumerate(told)
    )


@dataclass(frozen=True)
class Cost:
    """What one answer took."""

    queries: tuple[Query, ...]
    bytes: int
    milliseconds: float
    """Of the processor, the least of some tries; not a number where there was none."""


def measure_all(seeded: Large, *, repeat: int = 0) -> dict[str, Cost]:
    """Return name → cost of all pages of the reader and of the admin, of what pages ask for by themselves, and of REST."""
    costs: dict[str, Cost] = {}
    for pages in seeded.all_parts:
        client = Client(headers={"HX-Request": "true"} if pages == seeded.parts else {})
        client.force_login(seeded.admin if pages == seeded.admin_pages else seeded.reader)
        costs |= {name: measure(client, url, repeat=repeat) for name, url in pages.items()}
    return costs


def measure(client: Client, url: str, *, repeat: int = 0) -> Cost:
    """Ask for a page, which must open; the first time, which compiles templates and SQL, is left out."""
    answer = client.get(url)
    assert answer.status_code == 200, (url, answer.status_code, answer.content[-1000:])
    queries: list[Query] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:  # noqa: FBT001 - Django's signature
        queries.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        client.get(url)
    tries = []
    for _ in range(repeat):
        started = time.process_time()
        client.get(url)
        tries.append((time.process_time() - started) * 1000)
    return Cost(queries=tuple(queries), bytes=len(answer.content), milliseconds=min(tries, default=math.nan))
