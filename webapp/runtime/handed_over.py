"""Secrets in files instead of environments, which crash reports, `ps` and every child get to see.

Each secret NAME may come as NAME_FILE, the path of a file that holds it, as containers do. `manage.py run` puts the secrets
of its own environment into such files, readable by their owner only, and starts itself anew without them: its parts have
the paths alone. `python -m webapp.runtime.handed_over program argument...` does the same for another program.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

NAMES = (
    "TRIBUTARY_SECRET_KEY",
    "TRIBUTARY_ADMIN_PASSWORD",
    "DATABASE_URL",
    "CELERY_BROKER_URL",
    "SPARK_REMOTE",
    "EMAIL_HOST_PASSWORD",
    "TRIBUTARY_OIDC_CLIENT_SECRET",
    "TRIBUTARY_S3_ACCESS_KEY_ID",
    "TRIBUTARY_S3_SECRET_ACCESS_KEY",
)
FOLDER = "TRIBUTARY_HANDED_OVER"
"""Names the folder of the files that this run made."""


def read_secret(name: str) -> str:
    """Return a secret from the environment, or from the file that the environment names; empty where there is none.

    Raises:
        SystemExit: the file cannot be read; says which.

    """
    value = os.environ.get(name)
    path = os.environ.get(f"{name}_FILE")
    if value or not path:
        return value or ""
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\n")
    except OSError as error:
        message = f"{name}_FILE names {path}, which cannot be read: {error.strerror}."
        raise SystemExit(message) from error


def read_or_make_key(path: Path) -> str:
    """Return the key of a file, made by whichever process comes first; the file appears whole or not at all.

    Raises:
        SystemExit: the file is empty, as an earlier release left it on a full disk; says the ways out.

    """
    if not path.exists():
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            write_private(draft, secrets.token_urlsafe(50))
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    if key := path.read_text(encoding="utf-8").strip():
        return key
    message = (
        f"{path} is empty. Put the one of your backup back. Without one remove the file: a new key is made, everybody "
        "signs in again, and the secrets of webhooks have to be entered again."
    )
    raise SystemExit(message)


def find_home() -> Path:
    """Return the installation's folder, as the settings have it, made where it is missing."""
    home = Path(os.environ.get("TRIBUTARY_HOME") or Path(__file__).resolve().parents[2] / "var").resolve()
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    return home


def hand_over(home: Path, command: Sequence[str] = ()) -> None:
    """Put the secrets of this process's environment into files and become a program without them.

    Args:
        home: the installation's folder.
        command: the program; this one again by default, which goes on where there are no secrets.

    """
    values = {name: os.environ[name] for name in NAMES if os.environ.get(name)}
    environment = {name: value for name, value in os.environ.items() if name not in values}
    if values:
        folder = home / "run" / "secrets" / f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True, mode=0o700)
        environment |= write_secrets(folder, values) | {FOLDER: str(folder)}
    if values or command:
        program = list(command) or [sys.executable, *sys.argv]
        os.execvpe(program[0], program, environment)  # noqa: S606 - the point of this function


def write_secrets(folder: Path, values: Mapping[str, str]) -> dict[str, str]:
    """Write secrets into files of a folder; return the variables that name these."""
    variables = {}
    for name, value in values.items():
        path = folder / name
        write_private(path, value)
        variables[f"{name}_FILE"] = str(path)
    return variables


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, from its first byte on."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def make_folder(home: Path) -> Path:
    """Return the folder of this run's secrets, made where nothing was handed over; those of dead runs are removed."""
    here = f"{socket.gethostname()}-"
    parent = home / "run" / "secrets"
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in parent.glob(f"{here}*"):
        process = folder.name.removeprefix(here).partition("-")[0]
        if not Path("/proc", process).exists():
            shutil.rmtree(folder, ignore_errors=True)
    folder = Path(os.environ.get(FOLDER) or parent / f"{here}{os.getpid()}-{secrets.token_hex(4)}")
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder


if __name__ == "__main__":
    hand_over(find_home(), sys.argv[1:])
