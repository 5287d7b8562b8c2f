# noqa: INP001 - run by Git from this folder, never imported
"""Run by Git before and after a push: tell the web process which refs move, and print what it answers.

The decision is made in the web process at this moment, with its database; here is no rule to go out of date, but for how
large a single thing may be: what has arrived is seen by hooks only, and some bytes may unpack to gigabytes, a few folders
that name each other to billions of files, on every page that shows them.
Only the standard library: Git starts this with an empty environment.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable

MAX_BYTES = {b"blob": 100 * 1024**2, b"tree": 100 * 1024**2, b"commit": 1024**2, b"tag": 1024**2}
MAX_FILES = 100_000
"""Of one commit, with its folders."""
MAX_DEPTH = 100
_KIND, _FOLDER = 0o170000, 0o040000


def find_excess() -> str:
    """Say what of the objects that have arrived is larger than a repository takes, or nothing."""
    if "GIT_QUARANTINE_PATH" not in os.environ:
        return ""  # nothing has: branches are deleted
    trees = []
    # Without the repository's own objects, beside which they lie until the push is accepted.
    alone = {name: value for name, value in os.environ.items() if name != "GIT_ALTERNATE_OBJECT_DIRECTORIES"}
    said = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
    command = ["git", "cat-file", "--batch-all-objects", "--unordered", said]
    with subprocess.Popen(command, env=alone, stdout=subprocess.PIPE) as listing:
        for line in listing.stdout or ():
            name, kind, size = line.split()
            if int(size) > MAX_BYTES[kind]:
                listing.kill()
                return f"the {kind.decode()} {name.decode()} has {int(size):,} bytes, more than {MAX_BYTES[kind]:,}"
            if kind == b"tree":
                trees.append(name)
    if listing.returncode:
        return "what was sent cannot be read"
    with subprocess.Popen(["git", "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:

        def read(name: bytes) -> bytes:
            if reader.stdin is None or reader.stdout is None:
                raise OSError
            reader.stdin.write(name + b"\n")
            reader.stdin.flush()
            _, kind, *size = reader.stdout.readline().split()
            if not size:
                raise LookupError(f"the folder {name.decode()} is {kind.decode()}")
            return reader.stdout.read(int(size[0]) + 1)[:-1]

        try:
            return find_large_tree(trees, read=read)
        except LookupError as error:
            return str(error)


def find_large_tree(trees: list[bytes], *, read: Callable[[bytes], bytes]) -> str:
    """Say which folder holds more than a commit may have, counting what several name as often as it is named."""
    sizes: dict[bytes, tuple[int, int]] = {}
    waiting: list[tuple[bytes, tuple[int, list[bytes]] | None]] = [(name, None) for name in trees]
    while waiting:
        name, entries = waiting.pop()
        if name in sizes:
            continue
        count, folders = entries or _list_folders(read(name))
        below = {folder for folder in folders if folder not in sizes}
        if below and count <= MAX_FILES:
            waiting += [(name, (count, folders)), *((folder, None) for folder in below)]
            continue
        count += sum(sizes[folder][0] for folder in folders if folder in sizes)
        depth = 1 + max((sizes[folder][1] for folder in folders if folder in sizes), default=0)
        if count > MAX_FILES or depth > MAX_DEPTH:
            most = f"{MAX_FILES:,} files and folders, {MAX_DEPTH} deep"
            return f"the folder {name.decode()} holds more than a commit may have: {most}"
        sizes[name] = count, depth
    return ""


def _list_folders(tree: bytes) -> tuple[int, list[bytes]]:
    """Return how many entries a tree has, and which other trees it names."""
    count, place, folders = 0, 0, []
    while place < len(tree):
        end = tree.index(b"\0", place)
        if int(tree[place : tree.index(b" ", place)], 8) & _KIND == _FOLDER:
            folders.append(tree[end + 1 : end + 21].hex().encode())
        count, place = count + 1, end + 21
    return count, folders


def read_updates(*, check_history: bool) -> list[dict[str, object]]:
    """Read "old new ref" lines; ask Git which moves only add commits (their objects are visible to hooks only)."""
    updates: list[dict[str, object]] = []
    for line in sys.stdin.buffer:
        before, after, ref = line.decode("utf-8", "replace").rstrip("\n").split(" ", 2)
        old, new = before.strip("0") and before, after.strip("0") and after
        forward = bool(check_history and old and new and _is_ancestor(old, new))
        updates.append({"ref": ref, "before": old, "after": new, "fast_forward": forward})
    return updates


def _is_ancestor(old: str, new: str) -> bool:
    return subprocess.run(["git", "merge-base", "--is-ancestor", old, new], check=False).returncode == 0


def main(hook: str) -> int:
    """Ask and obey."""
    is_asked = hook == "pre-receive"
    excess = find_excess() if is_asked else ""
    request = {"hook": hook, "updates": read_updates(check_history=is_asked), "excess": excess}
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(os.environ["TRIBUTARY_HOOK_SOCKET"])
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as file:
                answer = json.loads(file.readline())
    except (OSError, ValueError, KeyError):
        sys.stderr.write("The server could not decide on this push; nothing was changed. Push again.\n")
        return 1
    for line in answer["lines"]:
        sys.stderr.write(f"{line}\n")
    return 0 if answer["accepted"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
