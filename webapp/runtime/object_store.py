"""The S3-compatible store of an `s3:` warehouse, as the installation itself reaches it: with its own keys, in its own processes.

Jobs and clients never get these keys. What they get is in the catalog's `storage/credentials.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings

from webapp.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECT_S = 3
READ_S = 20
CONNECTIONS = 32
DELETED_AT_ONCE = 1000
_ABSENT = ("NoSuchKey", "404", "NotFound")
_making = threading.Lock()


class Absent(Exception):
    """There is no such object."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a listing."""

    location: str
    size: int
    changed_at: datetime


def is_object_location(location: str) -> bool:
    """Return whether a location is in an object store."""
    return location.startswith("s3://")


def read(location: str, *, at_most: int | None = None) -> bytes:
    """Read the content of an object; with `at_most` no more than one byte beyond it is fetched.

    Raises:
        Absent: it is not there.
        Unavailable: the store does not answer, or not to us.

    """
    bucket, key = split(location)
    more = {} if at_most is None else {"Range": f"bytes=0-{at_most}"}
    with explained(location):
        content: bytes = client("s3").get_object(Bucket=bucket, Key=key, **more)["Body"].read()
    return content


def read_range(location: str, *, start: int, size: int) -> bytes:
    """Read some bytes of an object, as many as there are.

    Raises:
        Absent: it is not there.
        Unavailable: the store does not answer, or not to us.

    """
    bucket, key = split(location)
    with explained(location):
        answer = client("s3").get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{start + size - 1}")
        content: bytes = answer["Body"].read(size)
    return content


def find_size(location: str) -> int:
    """Return the size of an object in bytes.

    Raises:
        Absent: it is not there.
        Unavailable: the store does not answer, or not to us.

    """
    bucket, key = split(location)
    with explained(location):
        return int(client("s3").head_object(Bucket=bucket, Key=key)["ContentLength"])


def write_new(location: str, content: bytes) -> None:
    """Write an object that must not be there yet; when this returns, the store has it.

    The location has to be unique by itself: where an earlier try of this very call has been stored although its answer
    was lost, the store says that the object exists, and that is a success.
    """
    bucket, key = split(location)
    with explained(location, fine=("PreconditionFailed", "412")):
        client("s3").put_object(Bucket=bucket, Key=key, Body=content, ContentType="application/json", IfNoneMatch="*")


def delete(locations: list[str]) -> None:
    """Remove objects; absent ones are passed over."""
    for start in range(0, len(locations), DELETED_AT_ONCE):
        some = [split(location) for location in locations[start : start + DELETED_AT_ONCE]]
        with explained(locations[start]):
            answer = client("s3").delete_objects(
                Bucket=some[0][0], Delete={"Objects": [{"Key": key} for _, key in some], "Quiet": True}
            )
        for refused in answer.get("Errors") or ():
            message = f"The object store keeps {refused.get('Key')}: {refused.get('Code')}"
            raise Unavailable(message, code="warehouse_refuses")


def walk(location: str) -> Iterator[StoredObject]:
    """Yield every object below a location, which is taken as a folder."""
    bucket, key = split(location)
    with explained(location):
        pages = client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{key.rstrip('/')}/")
        for page in pages:
            for item in page.get("Contents", ()):
                yield StoredObject(f"s3://{bucket}/{item['Key']}", int(item["Size"]), item["LastModified"])


def measure_objects(location: str) -> int:
    """Add up the bytes of every object below a location."""
    return sum(file.size for file in walk(location))


def check(location: str) -> None:
    """Ask the store whether the bucket is there for us.

    Raises:
        Unavailable: it is not.

    """
    with explained(location):
        client("s3").head_bucket(Bucket=split(location)[0])


def split(location: str) -> tuple[str, str]:
    """Split a location into bucket and key. Iceberg does not percent-encode locations."""
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return bucket, key


def place_properties() -> dict[str, str]:
    """Return where the store is, in the words of Iceberg's file access; nothing secret."""
    region = settings.TRIBUTARY_S3_REGION
    properties = {"client.region": region, "s3.region": region}
    if settings.TRIBUTARY_S3_ENDPOINT:
        properties["s3.endpoint"] = settings.TRIBUTARY_S3_ENDPOINT
    is_path_style = settings.TRIBUTARY_S3_PATH_STYLE
    return {
        **properties,
        "s3.path-style-access": str(is_path_style).lower(),
        "s3.force-virtual-addressing": str(not is_path_style).lower(),
    }


def list_addresses() -> list[str]:
    """List the addresses of the warehouse's bucket for its clients, with its name in the path and in the host."""
    bucket = split(settings.TRIBUTARY_WAREHOUSE)[0]
    region = settings.TRIBUTARY_S3_REGION
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    endpoint = urlsplit(settings.TRIBUTARY_S3_ENDPOINT or f"https://s3.{region}.{suffix}")
    own = [endpoint.geturl()]
    if not settings.TRIBUTARY_S3_PATH_STYLE:
        own.append(endpoint._replace(netloc=f"{bucket}.{endpoint.netloc}").geturl())
    return own


def own_properties() -> dict[str, str]:
    """Return file access with the installation's own keys, for its own processes only."""
    return {**place_properties(), **key_properties(_own_keys())}


def key_properties(keys: Mapping[str, str | None]) -> dict[str, str]:
    """Write keys in the words of Iceberg's file access."""
    names = {
        "aws_access_key_id": "s3.access-key-id",
        "aws_secret_access_key": "s3.secret-access-key",
        "aws_session_token": "s3.session-token",
    }
    return {name: str(keys[key]) for key, name in names.items() if keys.get(key)}


def _own_keys() -> dict[str, str | None]:
    """Return the keys of the settings, else those that the machine has, such as an instance's role."""
    if settings.TRIBUTARY_S3_KEYS:
        return dict(settings.TRIBUTARY_S3_KEYS)
    from botocore.session import get_session

    credentials = get_session().get_credentials()
    if credentials is None:
        message = "The warehouse is in an object store and there are no keys for it: set TRIBUTARY_S3_ACCESS_KEY_ID"
        raise Unavailable(f"{message} and TRIBUTARY_S3_SECRET_ACCESS_KEY.", code="warehouse_keys")
    keys = credentials.get_frozen_credentials()
    return {
        "aws_access_key_id": keys.access_key,
        "aws_secret_access_key": keys.secret_key,
        "aws_session_token": keys.token,
    }


def client(service: str) -> Any:
    """Return a client of the store (`s3`) or of what gives out its keys (`sts`); shared by all threads."""
    with _making:
        endpoint = settings.TRIBUTARY_S3_STS_ENDPOINT if service == "sts" else settings.TRIBUTARY_S3_ENDPOINT
        return _make_client(service, endpoint, tuple(settings.TRIBUTARY_S3_KEYS.items()))


@cache
def _make_client(service: str, endpoint: str, keys: tuple[tuple[str, str], ...]) -> Any:
    # Late: it takes half a second that an installation on files need not wait for.
    from botocore.config import Config
    from botocore.session import get_session

    return get_session().create_client(
        service,
        endpoint_url=endpoint or None,
        region_name=settings.TRIBUTARY_S3_REGION,
        config=Config(
            connect_timeout=CONNECT_S,
            read_timeout=READ_S,
            max_pool_connections=CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": 2},
            s3={"addressing_style": "path" if settings.TRIBUTARY_S3_PATH_STYLE else "virtual"},
        ),
        **dict(keys),
    )


@contextmanager
def explained(location: str, *, fine: tuple[str, ...] = ()) -> Iterator[None]:
    """Put the store's refusals in our words."""
    from botocore.exceptions import BotoCoreError, ClientError

    host = urlsplit(settings.TRIBUTARY_S3_ENDPOINT).netloc or "S3"
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in fine:
            return
        if code in _ABSENT:
            raise Absent(location) from error
        message = f"The object store {host} refuses {error.operation_name} on {location} ({code}): try again later"
        raise Unavailable(message, code="warehouse_refuses") from error
    except BotoCoreError as error:
        message = f"The object store {host} does not answer ({type(error).__name__}): try again"
        raise Unavailable(message, code="warehouse_away") from error
