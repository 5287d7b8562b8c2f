"""What of their notifications somebody may still see: rights may have gone since they were written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q
from django.db.models.functions import Lower

from webapp.accounts.models import Folder, RepositoryRole

if TYPE_CHECKING:
    from webapp.core.principals import Principal


def visible_notifications(principal: Principal) -> Q:
    """Return the condition that somebody may see what a notification is about, as part of one statement."""
    return Q() if principal.is_admin else visible_by_roles(principal.user_id)


def visible_by_roles(user_id: int) -> Q:
    """Return that condition for a user who is no admin."""
    roles = RepositoryRole.objects.filter(user_id=user_id).values("repository")
    folders = Folder.objects.filter(Q(repository__in=roles) | Q(repository="", creator_id=user_id))
    may_repository = Q(repository=None) | Q(repository__name__in=roles)
    may_dataset = Q(dataset=None) | Q(dataset__folder__in=folders.values(lower=Lower("name")))
    return may_repository & may_dataset
