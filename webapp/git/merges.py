"""Merges of two commits, and what is made of them: conflicts, merge commits, rebases, reverts. No branch moves here."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice, takewhile
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, NamedTuple

import pygit2
from pygit2.enums import DeltaStatus, FileMode

from webapp.git.changes import check_contents
from webapp.git.conflicts import (
    GIT_MARK,
    ConflictedFile,
    ConflictMarks,
    Resolution,
    SideVersion,
    cut_ends,
    read_marked,
    settle,
    split_entries,
)
from webapp.git.errors import BadChange, CannotRebase, MergeConflict, NothingChanged, TooBig
from webapp.git.objects import FILE_MODES
from webapp.git.paths import decode_path, find_entry
from webapp.git.program import run_git
from webapp.git.values import CommitInfo, MergeMethod, MergePreview, Person

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from webapp.git.repository import GitRepository

MOST_REBASED = 100
"""So many commits are made anew at once: each is a merge."""
# A file of which both sides have changed lines is shown, to choose of them, up to this size.
MAX_SETTLED_BYTES = 1_000_000

_NOBODY = Person(name="Tributary", email="tributary@localhost")
_NEVER = datetime(2000, 1, 1, tzinfo=UTC)
"""Author and date of commits that are written for a comparison and never land."""
Stages = dict[int, SideVersion]
"""What a conflict consists of: of the base (1), of the target (2) and of the source (3)."""
_FILE_AND_FOLDER = "CONFLICT (file/directory)"
_TYPES_DIFFER = "CONFLICT (distinct modes)"


class _Merged(NamedTuple):
    """What Git makes of two commits."""

    tree: str
    stages: dict[str, Stages]
    """By path, as the commits name it."""
    invented: dict[str, str]
    """Names in the tree that Git made up, for want of a place for both sides, each with the path that it stands for."""
    crossed: frozenset[str]
    """Paths that are a file on one side and a folder on the other."""


class _Conflict(NamedTuple):
    """One message of `merge-tree` about paths that conflict."""

    kind: str
    paths: list[str]


def preview_merge(git: GitRepository, *, source: str, target: str) -> MergePreview:
    """Say whether two commits merge cleanly, and into which tree."""
    base = git.merge_base(source, target)
    if base is None:
        # Git refuses to merge unrelated histories; a pull request says so like any conflict.
        return MergePreview(clean=False, conflicts=("(the two histories have no commit in common)",))
    ours, theirs = git.objects.find_commit(target), git.objects.find_commit(source)
    for older, newer in ((ours, theirs), (theirs, ours)):
        if base == str(older.id):  # it has nothing of its own, and Git need not be started to say so
            return MergePreview(clean=True, tree=str(newer.tree_id))
    try:
        merged = _merge_trees(git, source=source, target=target)
    except TooBig:
        return MergePreview(clean=False, conflicts=("(both change files that are too large to be merged)",))
    paths = tuple(merged.stages) or tuple(_find_marked(git, merged.tree, target=target, source=source))
    return MergePreview(clean=not paths, conflicts=paths, tree=merged.tree)


def preview_merge_on(git: GitRepository, *, base: str, source: str, target: str) -> MergePreview:
    """Merge two commits as if a third one were their only merge base."""
    # Git 2.39 has no option for that, so it merges commits that are made for it. With a fixed date, a repeated call
    # writes no new objects.
    parted = _write_stand_in(git, base)
    ours, theirs = (_write_stand_in(git, sha, parted) for sha in (target, source))
    return preview_merge(git, source=theirs, target=ours)


def _write_stand_in(git: GitRepository, sha: str, *parents: str) -> str:
    tree = str(git.objects.find_commit(sha).tree.id)
    return git.objects.write_commit(tree, parents, "", _NOBODY, _NOBODY, authored_at=_NEVER, committed_at=_NEVER)


def _merge_trees(git: GitRepository, *, source: str, target: str, mark: int = GIT_MARK) -> _Merged:
    """Merge two commits."""
    with NamedTemporaryFile(prefix="tributary-attributes-") if mark != GIT_MARK else nullcontext() as attributes:
        if attributes is not None:
            attributes.write(f"* conflict-marker-size={mark}\n".encode())
            attributes.flush()
        result = run_git(
            git.path,
            "-c",
            f"core.attributesFile={attributes.name if attributes is not None else '/dev/null'}",
            "merge-tree",
            "--write-tree",
            "-z",
            "--end-of-options",
            str(git.objects.find_commit(target).id),
            str(git.objects.find_commit(source).id),
            accept=(0, 1),
        )
    tree, *rest = result.stdout.split(b"\0")
    if not result.returncode:
        return _Merged(tree.decode(), {}, {}, frozenset())
    stages, conflicts = _read_stages(rest)
    return _Merged(tree.decode(), *_name_as_committed(stages, conflicts))


def read_conflicts(git: GitRepository, *, source: str, target: str) -> list[ConflictedFile]:
    """Return the files that keep two commits from being merged; what the target has is ours, of the source theirs.

    Raises:
        MergeConflict: none of it can be settled by choosing what files are to be; it says what keeps them apart.

    """
    state = preview_merge(git, source=source, target=target)
    if state.conflicts and not state.tree:
        raise MergeConflict(state.conflicts)
    merge = _merge_trees(git, source=source, target=target)
    sides = {
        path: merge.stages.get(path) or _find_sides(git, path, target=target, source=source) for path in state.conflicts
    }
    for path in merge.crossed:
        folders = _find_sides(git, path, target=target, source=source)
        sides[path] = sides[path] | {stage: side for stage, side in folders.items() if side.kind == "folder"}
    readable = {
        path: sides[path] for path, versions in merge.stages.items() if versions and _is_readable(git, sides[path])
    }
    texts = [_read_version(git, version) for versions in readable.values() for version in versions.values()]
    marks = ConflictMarks.fit(texts, ours=target, theirs=source)
    tree = _merge_trees(git, source=source, target=target, mark=marks.size).tree
    return [
        _describe_conflict(git, tree, path, versions, marks, is_readable=path in readable)
        for path, versions in sides.items()
    ]


def _find_sides(git: GitRepository, path: str, *, target: str, source: str) -> Stages:
    versions = {}
    for stage, sha in ((2, target), (3, source)):
        with suppress(KeyError):
            entry = find_entry(git.objects.find_commit(sha).tree, path)
            versions[stage] = SideVersion(str(entry.id), int(entry.filemode or 0))
    return versions


def _is_readable(git: GitRepository, versions: Stages) -> bool:
    """Say whether both sides have a text of which lines can be chosen."""
    return {2, 3} <= set(versions) and all(
        version.mode in FILE_MODES
        and git.objects.measure(pygit2.Oid(hex=version.blob)) <= MAX_SETTLED_BYTES
        and _is_text(_read_version(git, version))
        for version in versions.values()
    )


def _read_version(git: GitRepository, version: SideVersion) -> bytes:
    return bytes(git.objects.store[version.blob].data)


def _describe_conflict(
    git: GitRepository, tree: str, path: str, versions: Stages, marks: ConflictMarks, *, is_readable: bool
) -> ConflictedFile:
    ours, theirs = versions.get(2), versions.get(3)
    file = ConflictedFile(path=path, ours=ours, theirs=theirs, marks=marks)
    if not is_readable or ours is None or theirs is None:
        return file
    try:
        merged = bytes(find_entry(git.objects.store[tree], path).data).decode()
    except (KeyError, UnicodeDecodeError):
        return file
    segments = cut_ends(read_marked(merged, marks), ours=_read_version(git, ours), theirs=_read_version(git, theirs))
    if path.endswith(".toml"):
        segments = split_entries(segments)
    has_clash = any(not isinstance(segment, str) for segment in segments)
    return replace(file, segments=segments) if has_clash else file


def _find_marked(git: GitRepository, tree: str, *, target: str, source: str) -> Iterator[str]:
    """Find files in which Git left the marks of a conflict although it called the merge clean.

    Git 2.39 does so where one side renames a file to a place at which both sides add the same other one.
    """
    ours, theirs = git.objects.find_commit(target), git.objects.list_all(git.objects.find_commit(source).tree)
    mark = re.compile(rb"^<{7,} " + str(ours.id).encode(), re.MULTILINE)
    for delta in ours.tree.diff_to_tree(git.objects.store[tree]).deltas:
        path, merged = decode_path(delta.new_file.raw_path), delta.new_file.id
        if delta.status == DeltaStatus.DELETED or theirs.get(path, (None,))[0] == merged:
            continue
        blob = git.objects.store.get(merged)
        if isinstance(blob, pygit2.Blob) and mark.search(blob.data):
            yield path


def prepare_merge(
    git: GitRepository,
    *,
    source: str,
    target: str,
    method: MergeMethod,
    message: str,
    author: Person,
    committer: Person | None = None,
    resolutions: Iterable[Resolution] = (),
) -> str:
    """Make the merge commit of two commits without moving any branch; `move_branch` lands it.

    Raises:
        MergeConflict: it names the files that conflict and for which there is no resolution.
        BadChange: a resolution is of a file that does not conflict, or cannot be.

    """
    state = preview_merge(git, source=source, target=target)
    settled = {resolution.path: resolution for resolution in resolutions}
    for path in settled:
        if path not in state.conflicts:
            raise BadChange(path, "this file does not conflict")
    open_paths = tuple(path for path in state.conflicts if path not in settled)
    if open_paths:
        raise MergeConflict(open_paths)
    tree = _settle(git, state.tree, settled, source=source, target=target) if settled else state.tree
    merged = (str(git.objects.find_commit(source).id),) if method == "merge" else ()
    # A source without a commit of its own brings data alone: its merge may have one parent.
    parents = tuple(dict.fromkeys((str(git.objects.find_commit(target).id), *merged)))
    return git.objects.write_commit(tree, parents, message, author, committer or author)


def _settle(git: GitRepository, merged: str, resolutions: Mapping[str, Resolution], *, source: str, target: str) -> str:
    """Return the tree of a merge in which each file that conflicts is what somebody wants it to be."""
    check_contents([resolution.content or b"" for resolution in resolutions.values()])
    files = git.objects.list_all(git.objects.store[merged])
    for name, path in _merge_trees(git, source=source, target=target).invented.items():
        files[path] = files.pop(name)
    # A folder before what is in it: a file in the place of a folder that keeps files is refused.
    for conflict in sorted(read_conflicts(git, source=source, target=target), key=lambda conflict: conflict.path):
        becomes = settle(conflict, resolutions[conflict.path])
        _unused, mode = files.pop(conflict.path, (None, FileMode.BLOB))
        if becomes is None or (isinstance(becomes, SideVersion) and becomes.kind == "folder"):
            continue
        if conflict.has_folder:
            files = {path: file for path, file in files.items() if not path.startswith(f"{conflict.path}/")}
        files[conflict.path] = (
            (pygit2.Oid(hex=becomes.blob), FileMode(becomes.mode))
            if isinstance(becomes, SideVersion)
            else (git.objects.create_blob(becomes), mode if mode in FILE_MODES else FileMode.BLOB)
        )
    return git.objects.write_tree(files)


def prepare_rebase(git: GitRepository, *, source: str, target: str, committer: Person) -> str:
    """Make the commits of a source anew on top of a target, without moving any branch; return the last one.

    Merges among them are left out, as is what changes nothing any more. The files are what a merge would make of
    them, or it is refused: what was settled in a merge is in none of the other commits.

    Raises:
        MergeConflict: the two conflict.
        CannotRebase: one of the commits does, they are too many, or what comes out is not what a merge would make.

    """
    state = preview_merge(git, source=source, target=target)
    if state.conflicts:
        raise MergeConflict(state.conflicts)
    own = list(islice(git.iterate_upwards(source, exclude=[target]), MOST_REBASED + 1))
    if len(own) > MOST_REBASED:
        msg = f"More than {MOST_REBASED} commits are not rebased here. Merge, or rebase with Git."
        raise CannotRebase(msg)
    head = target
    for commit in own:
        if len(commit.parents) == 1:
            head = _pick(git, commit, head, committer)
    if str(git.objects.find_commit(head).tree.id) != state.tree:
        msg = (
            "The commits one by one do not make the files that a merge makes: something was settled in a merge. Merge."
        )
        raise CannotRebase(msg)
    return head


def _pick(git: GitRepository, commit: CommitInfo, head: str, committer: Person) -> str:
    """Make a commit anew on top of a head; return that, where nothing is left of it."""
    state = preview_merge_on(git, base=commit.parents[0], source=commit.sha, target=head)
    if state.conflicts:
        msg = f"{commit.short} ({commit.subject[:100]}) conflicts with what it would stand on. Merge instead."
        raise CannotRebase(msg)
    if state.tree == str(git.objects.find_commit(head).tree.id):
        return head
    return git.objects.write_commit(
        state.tree, (head,), commit.message, commit.author, committer, authored_at=commit.authored_at
    )


def prepare_revert(git: GitRepository, *, sha: str, target: str, message: str, author: Person) -> str:
    """Make a commit on top of another one that takes back what a commit brought to its first parent.

    No branch points to it yet. It is what Git's `revert --mainline 1` makes: the merge of the files of before with
    what was done since.

    Raises:
        MergeConflict: the same lines were changed since; it names the files.
        NothingChanged: nothing is left of what the commit brought.

    """
    before = git.objects.find_commit(git.objects.find_commit(sha).parent_ids[0])
    # Said otherwise than what lands: of the same second, it would be the commit with which it was reverted before.
    undone = git.objects.write_commit(str(before.tree.id), (sha,), f"What was before {sha}", author, author)
    reverted = prepare_merge(git, source=undone, target=target, method="squash", message=message, author=author)
    if git.get_commit(reverted).tree == git.get_commit(target).tree:
        msg = f"Nothing is left of what {sha[:7]} brought."
        raise NothingChanged(msg)
    return reverted


def _read_stages(items: list[bytes]) -> tuple[dict[str, Stages], list[_Conflict]]:
    """Read what `merge-tree` says after the tree: versions of files that conflict, and then messages about all files."""
    stages: dict[str, Stages] = defaultdict(dict)
    for item in takewhile(bool, items):
        facts, path = item.split(b"\t", 1)
        mode, blob, stage = facts.decode().split()
        stages[decode_path(path)][int(stage)] = SideVersion(blob, int(mode, 8))
    conflicts = []
    words = iter(items[items.index(b"") + 1 :])
    for count in takewhile(bool, words):
        paths = [decode_path(path) for path in islice(words, int(count))]
        conflict = _Conflict(next(words).decode(), paths)
        conflicts += [conflict] if conflict.kind.startswith("CONFLICT") else []
        next(words)
    return stages, conflicts


def _name_as_committed(
    stages: Mapping[str, Stages], conflicts: Iterable[_Conflict]
) -> tuple[dict[str, Stages], dict[str, str], frozenset[str]]:
    """Give files that conflict the names that they have in the commits.

    Git writes a file that is a folder on the other side, or of another type there, as `keep.txt~93ed93d…`.
    """
    invented: dict[str, str] = {}
    crossed = set()
    for kind, paths in conflicts:
        if kind in {_FILE_AND_FOLDER, _TYPES_DIFFER}:
            real = min(paths, key=len)
            invented.update({path: real for path in paths if path != real})
            crossed |= {real} if kind == _FILE_AND_FOLDER else set()
    if not stages:
        # Files that stand where Git would move others conflict, and are no versions of one file.
        return {path: {} for conflict in conflicts for path in conflict.paths}, invented, frozenset(crossed)
    named: dict[str, Stages] = defaultdict(dict)
    for path, versions in stages.items():
        named[invented.get(path, path)].update(versions)
    return dict(named), invented, frozenset(crossed)


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content
