"""Answers kept by Idempotency-Key, written in the same atomic block as the effect: one key, one effect."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction

from webapp.catalog.models import KeptAnswer
from webapp.core import clock

# As `/v1/config` advertises it, in the form that Java's parser takes; kept a little longer than promised.
LIFETIME = "PT30M"
KEPT_FOR = timedelta(minutes=35)
PRUNE_ONE_IN = 50
_carried: ContextVar["Keyed | None"] = ContextVar("idempotency_key", default=None)


class KeyTaken(Exception):
    """Another request with this key has had its effect first; this one had none."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A request that carries a key."""

    key: str
    user_id: int
    digest: str

    def find(self) -> KeptAnswer | None:
        """Find the record of an earlier request with this key, if it is still kept."""
        since = clock.cautious_now() - KEPT_FOR
        return KeptAnswer.objects.filter(user_id=self.user_id, key=self.key, created_at__gte=since).first()

    def store(self, *, status: int, body: str = "") -> None:
        """Keep the answer. Call it in the atomic block of the effect, or alone for a refusal.

        Raises:
            KeyTaken: another request was first; the caller's effect has to be undone.

        """
        if secrets.randbelow(PRUNE_ONE_IN) == 0:
            KeptAnswer.objects.filter(created_at__lt=clock.cautious_now() - KEPT_FOR).delete()
        expired = KeptAnswer.objects.filter(
            user_id=self.user_id, key=self.key, created_at__lt=clock.cautious_now() - KEPT_FOR
        )
        try:
            with transaction.atomic():
                KeptAnswer.objects.create(
                    key=self.key, user_id=self.user_id, request_digest=self.digest, status=status, body=body
                )
        except IntegrityError:
            if expired.delete()[0]:
                self.store(status=status, body=body)
                return
            raise KeyTaken from None


@contextmanager
def carrying(keyed: Keyed) -> Iterator[None]:
    """Have the act that is done in here keep its answer under the key: see `act`."""
    token = _carried.set(keyed)
    try:
        yield
    finally:
        _carried.reset(token)


@contextmanager
def act() -> Iterator[None]:
    """Open the atomic block of an act. If its request carries a key, the last thing it writes is that the key is used.

    A block that is left by an error, a lost race for one, has no effect and keeps nothing; acts inside of an act are part of it.

    Raises:
        KeyTaken: another request with the key was first; this act is undone.

    """
    keyed = _carried.get()
    token = _carried.set(None)
    try:
        with transaction.atomic():
            yield
            if keyed is not None:
                keyed.store(status=200)
    finally:
        _carried.reset(token)
