# noqa: INP001 - run by Git from this folder, never imported
"""Run by Git before and after a push: tell the web process which refs move, and print what it answers.

The decision is made in the web process at this moment, with its database; here is no rule to go out of date.
Only the standard library: Git starts this with an empty environment.
"""

import json
import os
import socket
import subprocess
import sys


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
    request = {"hook": hook, "updates": read_updates(check_history=hook == "pre-receive")}
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
