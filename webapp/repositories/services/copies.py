"""Whether the bare repository on this machine is the one that the database knows, and as new.

Absence in Git is never taken for a deletion: a folder that was restored from an older backup, or that belongs to another
installation, lacks branches that nobody deleted. Nothing is written to such a copy and nothing follows it; one that is only
older is read.
"""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import DatabaseError

from webapp.core import clock
from webapp.core.errors import Unavailable
from webapp.repositories.errors import git_refusals
from webapp.repositories.models import CopyDamage, Repository
from webapp.runtime.health import PartHealth

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webapp.git.repository import GitRepository

ACCEPT = "Bring the newer copy back, or run `manage.py accept_repository {name}` to go on with this one."
SEEN_FOR = timedelta(minutes=5)
"""A copy that nobody has looked at for so long is on a machine that is gone."""
SEE_AGAIN = timedelta(minutes=1)


def find_copy_problem(repository: Repository, git: GitRepository) -> str:
    """Return why this copy must not be written; nothing where it is the right one."""
    # Asked anew, and before the copy: what somebody has in hand may be as old as a restored folder.
    generation = Repository.objects.filter(pk=repository.pk).values_list("generation", flat=True).first()
    identity = git.read_identity()
    way_out = ACCEPT.format(name=repository.name)
    if identity is None:
        if not generation:
            # Made before copies said whose they are; the next move says it.
            return ""
        return f"{git.path} does not say which repository it is. {way_out}"
    if identity.uid != repository.uid.hex:
        return f"{git.path} is a copy of another repository, or of another installation's. {way_out}"
    if generation is not None and identity.generation < generation:
        behind = generation - identity.generation
        return f"{git.path} is older than the database, by {behind} moves of branches. {way_out}"
    return ""


def check_copy(*, repository: Repository) -> None:
    """Refuse to write a copy that is not the one the database knows.

    Raises:
        Unavailable: it is foreign or older; code `repository_damaged`.

    """
    with git_refusals():
        git = repository.copy
    _refuse(repository, find_copy_problem(repository, git))


def _refuse(repository: Repository, problem: str) -> None:
    if problem:
        message = f"The repository {repository.name} cannot be written: {problem}"
        raise Unavailable(message, code="repository_damaged")


def count_move(repository: Repository, git: GitRepository, *, is_accepting: bool = False) -> None:
    """Count an announced move, in the copy first and then in the database.

    Raises:
        Unavailable: somebody has put another copy there since the move was allowed; nothing of it is announced.

    """
    if not is_accepting:
        _refuse(repository, find_copy_problem(repository, git))
    generation = git.advance(uid=repository.uid.hex, at_least=repository.generation)
    Repository.objects.filter(pk=repository.pk, generation__lt=generation).update(generation=generation)
    repository.generation = max(repository.generation, generation)


def note_damages(*, problems: Iterable[tuple[Repository, str]]) -> None:
    """Keep what is wrong with the copies of this machine, for `readyz`; what is not named any more is well again."""
    place = name_place()
    damages = {repository.pk: problem for repository, problem in problems}
    now = clock.now()
    rows = {row.repository_id: row for row in CopyDamage.objects.filter(place=place)}
    CopyDamage.objects.filter(pk__in=[row.pk for row in rows.values() if row.repository_id not in damages]).delete()
    for pk, problem in damages.items():
        row = rows.get(pk)
        if row is None or row.problem != problem or row.seen_at < now - SEE_AGAIN:
            CopyDamage.objects.update_or_create(
                repository_id=pk, place=place, defaults={"problem": problem, "seen_at": now}
            )


def name_place() -> str:
    """Return the name of this machine's copies."""
    return f"{socket.gethostname()}:{settings.TRIBUTARY_HOME}"


def check_repositories_part() -> PartHealth:
    """Look whether every copy is the one that the database knows, for `readyz`."""
    try:
        rows = list(
            CopyDamage.objects.filter(seen_at__gt=clock.now() - SEEN_FOR)
            .select_related("repository")
            .order_by("repository__name", "place")
        )
    except DatabaseError as error:
        return PartHealth("repositories", works=False, state="down", detail=str(error))
    if not rows:
        return PartHealth("repositories", works=True, state="ok", detail="every copy is the newest")
    detail = "; ".join(f"{row.repository.name}: {row.problem}" for row in rows)
    return PartHealth("repositories", works=False, state="damaged", detail=detail)
