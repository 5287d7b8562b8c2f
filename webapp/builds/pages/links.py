"""How the pages of builds name datasets and branches."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from webapp.core.choices import Picker, choose
from webapp.repositories import queries as repositories
from webapp.repositories.models import Repository


@dataclass(frozen=True, slots=True)
class DatasetLink:
    """A dataset as a page names it: short inside its own folder."""

    path: str
    short: str
    url: str


def link_dataset(path: str, branch: str, folder: str = "/") -> DatasetLink:
    """Return a dataset's names and the address of its page on a branch."""
    return DatasetLink(path=path, short=path.removeprefix(folder), url=f"/d{path}?{urlencode({'branch': branch})}")


def list_branch_links(repository: Repository, url: str, /, *, current: str = "", q: str = "", **more: str) -> Picker:
    """Return the first branches of a repository that have a text in their name, for the picker of a page."""
    choices = choose(repositories.list_branch_names(repository), q=q, current=current)
    return Picker(
        branches=tuple(
            {"name": name, "url": f"{url}?{urlencode({'branch': name, **more})}", "note": ""} for name in choices.names
        ),
        others=choices.others,
        q=q,
        find_url=f"{url}?{urlencode({'fragment': 'branches', **more})}",
    )
