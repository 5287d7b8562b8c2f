"""What people watch, and where they want to be told what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from webapp.accounts.permissions import check_dataset, check_repository
from webapp.accounts.services import record_audit
from webapp.core.errors import InvalidInput
from webapp.notices.models import MailAddress, Preference, Watch
from webapp.notices.rules.facts import CHANNEL_CHOICES, Reason

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset
    from webapp.repositories.models import Repository

MOST_ADDRESS = 254


def watch_repository(*, repository: Repository, by: Principal, is_watched: bool = True) -> None:
    """Tell somebody from now on what happens to a repository, or no more."""
    check_repository(by, repository.name, "read")
    _set_watch(by, repository.name, is_watched=is_watched, repository=repository)


def watch_dataset(*, dataset: Dataset, by: Principal, is_watched: bool = True) -> None:
    """Tell somebody from now on what happens to a dataset, or no more."""
    check_dataset(by, dataset.path, "read")
    _set_watch(by, dataset.path, is_watched=is_watched, dataset=dataset)


def _set_watch(by: Principal, name: str, *, is_watched: bool, **thing: Any) -> None:
    with transaction.atomic():
        if is_watched:
            Watch.objects.get_or_create(user_id=by.user_id, **thing)
        else:
            Watch.objects.filter(user=by.user_id, **thing).delete()
        record_audit(by=by, verb="watch" if is_watched else "unwatch", object=name)


def set_wishes(*, by: Principal, channels: Mapping[str, str], address: str | None = None) -> None:
    """Say where one wants to be told what; what is left out stays as it is.

    Args:
        by: whose wishes.
        channels: reason → channel.
        address: where mails go; empty: to the address of the account.

    Raises:
        InvalidInput: an unknown reason or channel, or no address.

    """
    for reason, channel in channels.items():
        if reason not in set(Reason) or channel not in dict(CHANNEL_CHOICES):
            message = f"A channel is one of {', '.join(dict(CHANNEL_CHOICES))} for one of {', '.join(Reason)}."
            raise InvalidInput(message, errors={"channels": [message]})
    if address:
        _check_address(address)
    with transaction.atomic():
        for reason, channel in channels.items():
            Preference.objects.update_or_create(user_id=by.user_id, reason=reason, defaults={"channel": channel})
        if address:
            MailAddress.objects.update_or_create(user_id=by.user_id, defaults={"address": address})
        elif address is not None:
            MailAddress.objects.filter(user=by.user_id).delete()
        record_audit(by=by, verb="set_notifications", object=by.username, detail={"channels": dict(channels)})


def _check_address(address: str) -> None:
    try:
        validate_email(address)
    except ValidationError:
        message = f"{address!r} is no address such as ines@example.org."
        raise InvalidInput(message, errors={"address": [message]}) from None
    if len(address) > MOST_ADDRESS:
        message = f"An address has at most {MOST_ADDRESS} characters."
        raise InvalidInput(message, errors={"address": [message]})
