"""Histories in which two branches have several merge bases, as a pusher writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pygit2

from webapp.git.values import Change, Person

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webapp.git.repository import GitRepository

START = 1_700_000_000
PUSHER = Person(name="Mallory", email="mallory@example.org")


def commit(git: GitRepository, files: Mapping[str, str], *, parents: tuple[str, ...], time: int = 0) -> str:
    """Write a commit with the files of its first parent and these, whatever its parents have, with a date of its own."""
    tree = git.get_commit(parents[0]).tree
    changes = [
        Change(path=path, content=text.encode())
        for path, text in files.items()
        if git.find_kind(parents[0], path) is None or git.read_blob(parents[0], path).text != text
    ]
    if changes:
        changed = git.prepare_commit(parent=parents[0], message="Work", changes=changes, author=PUSHER)
        tree = git.get_commit(changed).tree
    who = pygit2.Signature(PUSHER.name, PUSHER.email, START + time, 0)
    oids = [pygit2.Oid(hex=parent) for parent in parents]
    return str(git.objects.store.create_commit(None, who, who, f"Work {time}\n", pygit2.Oid(hex=tree), oids))


def cross(git: GitRepository, start: str, *, path: str, hidden: str, shown: tuple[str, str]) -> tuple[str, str]:
    """Return the heads of two branches whose merges put `hidden` into a file that neither of them shows.

    The first has both lines of work that the second joins, each with another version of the file. The version of the
    target is that of their virtual merge base, so what the second has of the file lands.
    """
    kept = git.read_blob(start, path).text
    evil = commit(git, {path: hidden}, parents=(start,))
    left = commit(git, {}, parents=(evil,), time=2)
    right = commit(git, {path: kept}, parents=(evil,), time=1)
    first = commit(git, {path: kept, shown[0]: "a\n"}, parents=(right, left), time=3)
    second = commit(git, {path: hidden, shown[1]: "b\n"}, parents=(left, right), time=3)
    # Of two merge bases the newer one is compared with.
    assert git.merge_base(first, second) == left
    return first, second
