"""Long histories in a bare repository, as a push of somebody else's work brings them."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from webapp.repositories import services

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from webapp.repositories.models import Repository

START = 1_700_000_000
AUTHORS = ("Ines Okafor <ines@example.org>", "Olek Nowak <olek@example.org>", "Anaïs Müller <anais@example.org>")


def run_git(folder: Path, *arguments: str, content: bytes = b"") -> str:
    """Run Git itself, which tests compare with."""
    done = subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C.UTF-8"},
        input=content,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def write_commit(*, ref: str, number: int, parents: Iterable[str], time: int | None = None) -> str:
    """Return a commit in the words of `git fast-import`; it changes one file."""
    name = AUTHORS[number % len(AUTHORS)]
    first, *others = [*parents, ""]
    message, content = f"Step {number} of {ref}\n\nWhy it was taken.\n", f"{ref} {number}\n"
    moment = f"{START + number if time is None else time} +0130"
    return "".join(
        (
            f"commit refs/heads/{ref}\nmark :{number + 1}\nauthor {name} {moment}\ncommitter {name} {moment}\n",
            f"data {len(message.encode())}\n{message}",
            f"from {first}\n" if first else "",
            *(f"merge {parent}\n" for parent in others if parent),
            f"M 100644 inline {ref}.txt\ndata {len(content.encode())}\n{content}\n",
        )
    )


def import_history(repository: Repository, *, commits: int, branches: int = 0) -> None:
    """Give master a line of commits, and branches of one commit each, evenly spread along it. Nothing is announced."""
    first = repository.git.get_head("master")
    lines = [
        write_commit(ref="master", number=number, parents=[f":{number}" if number else first])
        for number in range(commits)
    ]
    every = max(1, commits // branches) if branches else 0
    for number in range(branches):
        start = f":{commits - number * every}"
        lines.append(write_commit(ref=f"line-{number:03}", number=commits + number, parents=[start]))
    run_git(repository.path, "fast-import", "--quiet", "--force", content="".join(lines).encode())


def import_line(repository: Repository, *, branch: str, commits: int) -> None:
    """Give a branch a line of commits above its head, and announce it as one push."""
    head = repository.git.get_head(branch)
    lines = [
        write_commit(ref=branch, number=number, parents=[f":{number}" if number else head]) for number in range(commits)
    ]
    run_git(repository.path, "fast-import", "--quiet", content="".join(lines).encode())
    after = repository.git.get_head(branch)
    services.announce(repository=repository, branch=branch, before=head, after=after, by=None)


def announce_all(repository: Repository) -> None:
    """Announce every branch, the default one first."""
    heads = repository.git.list_heads()
    for name in sorted(heads, key=lambda name: (name != repository.default_branch, name)):
        services.announce(repository=repository, branch=name, before="", after=heads[name], by=None)
