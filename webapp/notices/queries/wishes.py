"""What somebody watches, and where they want to be told what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings

from webapp.accounts.models import User
from webapp.notices.models import Mail, MailAddress, Preference, Watch
from webapp.notices.rules.facts import Reason
from webapp.notices.rules.states import MailState

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset
    from webapp.repositories.models import Repository


@dataclass(frozen=True)
class Wishes:
    """Where somebody wants to be told what."""

    address: str
    """Where mails go; empty: nowhere."""
    channels: dict[str, str]
    """Reason → channel, of every reason."""
    is_mailing: bool
    """Whether this installation sends mails."""
    failed: Mail | None
    """The last mail to them, where it was given up."""


def read_wishes(principal: Principal) -> Wishes:
    """Return where somebody wants to be told what."""
    chosen = dict(Preference.objects.filter(user=principal.user_id).values_list("reason", "channel"))
    last = Mail.objects.filter(notification__user=principal.user_id).exclude(finished_at=None).order_by("-pk").first()
    return Wishes(
        address=find_address(principal.user_id),
        channels={reason.value: chosen.get(reason.value, reason.channel) for reason in Reason},
        is_mailing=bool(settings.EMAIL_HOST),
        failed=last if last is not None and last.state == MailState.GIVEN_UP else None,
    )


def find_address(user_id: int) -> str:
    """Return where somebody's mails go: the address that they gave, else that of their account."""
    own = MailAddress.objects.filter(user=user_id).values_list("address", flat=True).first()
    return own or User.objects.filter(pk=user_id).values_list("email", flat=True).first() or ""


def is_watching(principal: Principal, *, repository: Repository | None = None, dataset: Dataset | None = None) -> bool:
    """Return whether somebody watches a repository or a dataset."""
    return Watch.objects.filter(user=principal.user_id, repository=repository, dataset=dataset).exists()
