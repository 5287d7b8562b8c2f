"""The git program, run on one repository: it reads no configuration but the repository's, asks nobody, and has limits."""

from __future__ import annotations

import resource
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from webapp.git.errors import GitError, TooBig

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from webapp.git.locks import Lease

# Git reads no configuration but the repository's own; nothing it runs may ask, page, or start a helper.
GIT_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "",
}
# Of what Git merges or takes in, since some bytes of a pack may be a file of gigabytes.
GIT_MEMORY_BYTES = 2 * 1024**3
USUAL_SECONDS = 60
"""For a merge, which is the longest of what a page waits for."""


def run_git(
    path: Path,
    *arguments: str,
    accept: tuple[int, ...] | None = (0,),
    seconds: int = USUAL_SECONDS,
    lease: Lease | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run the program on a repository; `accept` = exit codes that are no error, None for all of them.

    Raises:
        TooBig: it takes more memory than it may.
        GitError: it fails, or takes longer than so many seconds.

    """
    try:
        result = _run(
            ["git", "--git-dir", str(path), *arguments],
            seconds=seconds,
            pass_fds=() if lease is None else (lease.descriptor,),
        )
    except subprocess.TimeoutExpired as error:
        msg = f"git {arguments[0]} took longer than {seconds} s."
        raise GitError(msg) from error
    if result.returncode == 128 and b"ut of memory" in result.stderr:
        msg = f"git {arguments[0]} takes more than {GIT_MEMORY_BYTES} bytes of memory."
        raise TooBig(msg)
    if accept is not None and result.returncode not in accept:
        reason = result.stderr.decode("utf-8", "replace").strip()[:500]
        msg = f"git {arguments[0]} failed: {reason}"
        raise GitError(msg)
    return result


def _run(command: list[str], *, seconds: int, pass_fds: tuple[int, ...]) -> subprocess.CompletedProcess[bytes]:
    with subprocess.Popen(
        command,
        env=dict(GIT_ENVIRONMENT),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=pass_fds,
    ) as process:
        limit_memory(process.pid)
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def limit_memory(process: int) -> None:
    """Limit what a program of Git, and whatever it starts, may hold in memory beside the files that it maps."""
    with suppress(ProcessLookupError):
        resource.prlimit(process, resource.RLIMIT_DATA, (GIT_MEMORY_BYTES, GIT_MEMORY_BYTES))
