"""Keys for a table's files in an object store: a session of the installation's role, narrowed to that table."""

import json
import math
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from webapp.catalog.rules.access import Access, session_policy
from webapp.core import clock
from webapp.core.errors import Unavailable
from webapp.runtime import object_store

SHORTEST_S = 900
MOST_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class StorageKeys:
    """What a client opens a table's files with, in the words of Iceberg's file access."""

    config: dict[str, str]
    id: str
    """Tells these keys from the ones that come after them."""
    renew_at: float
    """By the clock that nobody sets."""


_kept: dict[tuple[str, Access, str], StorageKeys] = {}
_lock = threading.Lock()


def give_keys(*, location: str, access: Access, who: str) -> StorageKeys | None:
    """Give keys to the files of one table; None where this installation gives out none.

    They are shared by the requests of one caller until half of their time is over, so that whoever gets them can count
    on the other half.

    Raises:
        Unavailable: the store gives out none now.

    """
    if not settings.TRIBUTARY_S3_ROLE:
        if not settings.TRIBUTARY_S3_SHARE_KEYS:
            return None
        return StorageKeys(object_store.own_properties(), "shared", math.inf)
    place = (location, access, who)
    keys = _kept.get(place)
    if keys is None or keys.renew_at <= time.monotonic():
        keys = _assume_role(location, access, who)
        with _lock:
            if len(_kept) >= MOST_KEPT:
                _kept.clear()
            _kept[place] = keys
    return keys


def _assume_role(location: str, access: Access, who: str) -> StorageKeys:
    role = settings.TRIBUTARY_S3_ROLE
    partition = role.split(":")[1] if role.count(":") > 1 else "aws"
    policy = session_policy(location, access, who=who, partition=partition)
    with object_store.explained(location):
        credentials = object_store.client("sts").assume_role(
            RoleArn=role,
            RoleSessionName=f"tributary-{who}"[:64],
            Policy=json.dumps(policy, separators=(",", ":")),
            DurationSeconds=max(settings.TRIBUTARY_S3_SESSION_SECONDS, SHORTEST_S),
        )["Credentials"]
    return _read_keys(credentials)


def _read_keys(credentials: dict[str, Any]) -> StorageKeys:
    expires_at: datetime = credentials["Expiration"]
    config = {
        **object_store.place_properties(),
        "s3.access-key-id": credentials["AccessKeyId"],
        "s3.secret-access-key": credentials["SecretAccessKey"],
        "s3.session-token": credentials["SessionToken"],
        "s3.session-token-expires-at-ms": str(int(expires_at.timestamp() * 1000)),
    }
    left = expires_at - clock.now()
    if left < timedelta(seconds=SHORTEST_S / 3):
        message = f"The object store gives out keys for {left} only: are the clocks right?"
        raise Unavailable(message, code="warehouse_keys")
    return StorageKeys(config, credentials["AccessKeyId"], time.monotonic() + left.total_seconds() / 2)
