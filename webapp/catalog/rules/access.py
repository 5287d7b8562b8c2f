"""What a client may do with a table's files: how much, where, and the policy that says so to an object store.

A catalog cannot look over a client's shoulder while it writes files, and a key to a table's files is a key to those of all
branches. So whoever may write a branch, but does not maintain the table, writes into folders of its own below the table's
`data` and `metadata` and can change no file that is there: not another branch's, not the catalog's. In a `file:` warehouse
this holds for jobs, whose sandbox has those folders writable and no others.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from jobs.locations import is_inside, split_location
from webapp.catalog.rules.errors import Forbidden, Malformed
from webapp.catalog.rules.iceberg import Metadata, Snapshot

DATA_PATH = "write.data.path"
METADATA_PATH = "write.metadata.path"
COMMIT_RETRIES = {
    "commit.retry.num-retries": "1000",
    "commit.retry.min-wait-ms": "50",
    "commit.retry.max-wait-ms": "1000",
    "commit.retry.total-timeout-ms": "120000",
}
"""Properties by which clients repeat a lost commit for two minutes; their default is four retries in two seconds.

All branches of a table share its sequence numbers, so writers of other branches win races as well.
"""
# A wildcard, a variable or a quote in a location would say something else in a policy than in a request.
_PLAIN = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_.=@+-]+)+")
_NAMED = {
    "add-snapshot": (("snapshot", "manifest-list"),),
    "set-statistics": (("statistics", "statistics-path"),),
    "set-partition-statistics": (("partition-statistics", "statistics-path"),),
}
# Statistics belong to a snapshot, and everybody who reads it reads them.
_STATISTICS = {
    "set-statistics": "statistics",
    "set-partition-statistics": "partition-statistics",
    "remove-statistics": None,
    "remove-partition-statistics": None,
}
_WRITE = ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]


class Access(StrEnum):
    """How far somebody's rights on a table's files go; each includes those before it."""

    READ = "read"
    WRITE = "write"
    """New files, in folders of one's own."""
    MAINTAIN = "maintain"
    """All of the table's files but the catalog's: what snapshot expiry and compaction need."""


def own_paths(location: str, who: str) -> dict[str, str]:
    """Return the properties that send a writer's files into folders of its own."""
    return {DATA_PATH: f"{location}/data/{who}", METADATA_PATH: f"{location}/metadata/{who}"}


def is_made_by(snapshot: Snapshot, location: str, *, start: str) -> bool:
    """Return whether only one of some writers can have made a snapshot: its manifest list lies in a folder of theirs.

    Args:
        snapshot: of a table.
        location: the table's.
        start: how the names of their folders begin.

    """
    folder, path = own_paths(location, "")[METADATA_PATH], snapshot.get("manifest-list", "")
    if not is_inside(path, folder):
        return False
    inner = split_location(path)[1][len(split_location(folder)[1]) :]
    return len(inner) > 1 and inner[0].startswith(start)


def drop_shown(update: Mapping[str, Any], shown: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the update of a writer who was shown such properties without what it only repeats, if anything is left."""
    if update.get("action") != "set-properties" or not isinstance(update.get("updates"), dict):
        return dict(update)
    properties = {key: value for key, value in update["updates"].items() if key not in shown or shown[key] != value}
    return {**update, "updates": properties} if properties or not update["updates"] else None


def check_own_files(updates: Iterable[Mapping[str, Any]], metadata: Metadata, *, who: str) -> None:
    """Refuse a commit of a job that adds what it has not written into its own folder, or changes others' statistics.

    This is what is seen without opening a file; what the manifests name is checked before it is published.
    """
    folder = own_paths(metadata["location"], who)[METADATA_PATH]
    own: list[object] = [
        snapshot["snapshot-id"]
        for snapshot in metadata["snapshots"]
        if is_inside(str(snapshot.get("manifest-list")), folder)
    ]
    for update in updates:
        action = str(update.get("action"))
        for member, key in _NAMED.get(action, ()):
            named = _member(update, member).get(key)
            if not isinstance(named, str) or not is_inside(named, folder):
                message = f"A job commits files of its own folder {folder} only, and {action} names {named}"
                raise Forbidden(message)
        if action == "add-snapshot":
            own.append(_member(update, "snapshot").get("snapshot-id"))
        if action in _STATISTICS:
            holder = _STATISTICS[action]
            number = (update if holder is None else _member(update, holder)).get("snapshot-id")
            if number not in own:
                message = f"A job changes statistics of its own snapshots only, and {action} names {number}"
                raise Forbidden(message)


def _member(update: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    member = update.get(name)
    return member if isinstance(member, dict) else {}


def session_policy(location: str, access: Access, *, who: str, partition: str = "aws") -> dict[str, Any]:
    """Return the policy that narrows a session of the installation's role to the files of one table.

    Raises:
        Malformed: the location cannot be put into a policy.

    """
    if _PLAIN.fullmatch(location) is None:
        message = f"No keys can be given out for {location}: it holds characters that a policy reads otherwise"
        raise Malformed(message)
    bucket, _, key = location.removeprefix("s3://").partition("/")
    arn = f"arn:{partition}:s3:::{bucket}"
    own = [path.replace(f"s3://{bucket}", arn, 1) + "/*" for path in own_paths(location, who).values()]
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"{arn}/{key}/*"]},
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": [arn],
            "Condition": {"StringLike": {"s3:prefix": [f"{key}/*"]}},
        },
        # A session must not make itself another one, whatever the role's own policies say.
        {"Effect": "Deny", "Action": ["sts:*", "iam:*"], "Resource": ["*"]},
    ]
    if access == Access.WRITE:
        statements.append({"Effect": "Allow", "Action": _WRITE, "Resource": own})
    if access == Access.MAINTAIN:
        statements.append({"Effect": "Allow", "Action": _WRITE, "Resource": [f"{arn}/{key}/*"]})
        statements.append({"Effect": "Deny", "Action": _WRITE, "Resource": [f"{arn}/{key}/metadata/*.metadata.json"]})
    return {"Version": "2012-10-17", "Statement": statements}
