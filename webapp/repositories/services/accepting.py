"""Going on with a copy that is not the one the database knows, because somebody says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from webapp.accounts import services as accounts
from webapp.repositories.errors import git_refusals
from webapp.repositories.models import CopyDamage
from webapp.repositories.services.announcements import announce
from webapp.repositories.services.copies import count_move, name_place

if TYPE_CHECKING:
    from webapp.repositories.models import Repository


def accept_copy(*, repository: Repository) -> list[str]:
    """Go on with the copy on this machine as it is; return the branches that it lacks. Their data stays."""
    with git_refusals(), transaction.atomic():
        git = repository.copy
        heads = git.list_heads()
        repository.refresh_from_db(fields=["generation"])
        count_move(repository, git, is_accepting=True)
        lost = [
            (branch.name, branch.announced_head) for branch in repository.branches.all() if branch.name not in heads
        ]
        for name, head in lost:
            announce(repository=repository, branch=name, before=head, after="", by=None, data="keep")
        CopyDamage.objects.filter(repository=repository, place=name_place()).delete()
        names = [name for name, _ in lost]
        accounts.record_audit(by=None, verb="accept_repository", object=repository.name, detail={"lost": names})
    return names
