"""Files of a repository that jobs used while they ran, and what they were at a commit.

The digest of a transform covers what importing its module uses (`jobs/transforms/digest.py`). What a job uses later is
recorded by key, once for each digest. Two commits have the same code for a digest if all these keys have equal values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from webapp.builds.models import CodeColumns, ModuleFingerprint, UsedFile
from webapp.builds.rules.freshness import find_changed_files, make_token
from webapp.core.errors import AppError
from webapp.repositories import queries as repositories
from webapp.repositories.models import Repository

Place = tuple[str, str]
"""A repository by its name, and a commit of it."""


def list_used(digests: Collection[str]) -> dict[str, frozenset[str]]:
    """Return for each of these digests the keys that its jobs have used; those without any are left out."""
    used: dict[str, frozenset[str]] = {}
    for digest, key in UsedFile.objects.filter(digest__in=set(digests)).values_list("digest", "key"):
        used[digest] = used.get(digest, frozenset()) | {key}
    return used


def read_values(place: Place, keys: Collection[str]) -> dict[str, str]:
    """Return what each of these keys was at a commit: empty for what was not there.

    Of a commit that cannot be read each value is unique, so that nothing made from it is up to date.
    """
    if not keys:
        return {}
    repository_name, sha = place
    try:
        repository = repositories.repository_by_name(repository_name)
        entries = repositories.describe_paths(repository, sha, {_path_of(key) for key in keys})
    except AppError:
        return dict.fromkeys(keys, f"unknown at {sha}")
    blobs = {entries[path].id for key in keys if key.startswith("code:") and (path := _path_of(key)) in entries}
    prints = dict(ModuleFingerprint.objects.filter(blob__in=blobs).values_list("blob", "fingerprint")) if blobs else {}
    values = {}
    for key in keys:
        entry = entries.get(_path_of(key))
        kind = key.partition(":")[0]
        if entry is None:
            values[key] = ""
        elif kind == "code":
            values[key] = prints.get(entry.id, entry.id)
        elif kind in ("stat", "seek"):
            values[key] = "folder" if entry.is_folder else "file"
        elif kind in ("list", "data"):
            names = [name for name in entry.names if kind == "list" or not name.endswith(".py")]
            values[key] = hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()
        else:
            values[key] = f"{entry.id} x" if entry.is_program else entry.id
    return values


@dataclass(frozen=True, slots=True)
class CodeAtCommit:
    """The code of some outputs at a commit, with the files that its jobs used as they are there."""

    digests: Mapping[str, str]
    """Output path → digest."""
    used: Mapping[str, Collection[str]]
    """Digest → keys of the files that jobs of it used."""
    values: Mapping[str, str]
    """Key → what it was at the commit."""

    @property
    def tokens(self) -> dict[str, str]:
        """Output path → token of its code: equal ones at two commits mean equal code."""
        return {path: make_token(digest, self.read_used(digest)) for path, digest in self.digests.items()}

    def list_changed_files(self, other: CodeAtCommit) -> dict[str, list[str]]:
        """Return output path → used files that differ at another commit, of the outputs with the same digest at both."""
        changed: dict[str, list[str]] = {}
        for path, digest in self.digests.items():
            is_same = other.digests.get(path) == digest
            if is_same and (files := find_changed_files(self.read_used(digest), other.read_used(digest))):
                changed[path] = files
        return changed

    def read_used(self, digest: str) -> dict[str, str]:
        """Return key → value of the files that jobs of one of its digests used."""
        return {key: self.values[key] for key in self.used.get(digest, ())}


def read_code(repository: str, *commits: tuple[str, Mapping[str, str]]) -> list[CodeAtCommit]:
    """Return the code of some commits.

    Args:
        repository: its name.
        commits: each a commit and its digests by output path.

    """
    used = list_used({digest for _, digests in commits for digest in digests.values()})
    codes = []
    for sha, digests in commits:
        keys = frozenset().union(*(used.get(digest, ()) for digest in digests.values()))
        codes.append(CodeAtCommit(digests, used, read_values((repository, sha), keys)))
    return codes


def list_covered(digest: str) -> list[str]:
    """Return the keys that a digest covers, and those that its jobs have used beyond them."""
    row = CodeColumns.objects.filter(digest=digest).first()
    return sorted({*(row.covers if row else ()), *list_used([digest]).get(digest, ())})


def find_unknown_blobs(repository: Repository, sha: str, code: Mapping[str, str]) -> dict[str, str]:
    """Return blob → fingerprint of modules of a commit, those that are not known yet."""
    entries = repositories.describe_paths(repository, sha, set(code)) if code else {}
    prints = {entry.id: code[path] for path, entry in entries.items() if not entry.is_folder}
    blobs = ModuleFingerprint.objects.filter(blob__in=prints).values_list("blob", flat=True)
    return {blob: prints[blob] for blob in prints.keys() - set(blobs)}


def _path_of(key: str) -> str:
    return key.partition(":")[2] or "."
