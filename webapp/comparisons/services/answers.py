"""What a process left that answers with a DiffResult, or what its end means."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.protocol import MAX_MESSAGE_BYTES, DiffFailure, DiffResult, ProtocolError, load_storable, read_answer
from jobs.regular_files import read_regular
from webapp.dispatch.processes import MOST_FILES, Ending, ProcessEnd

ANSWER = "result.json"


def read_result(
    end: ProcessEnd, folder: Path, *, noun: str, limits: Mapping[str, int], time_limit_s: float
) -> DiffResult:
    """Return the answer, or the failure that the end of the process means.

    Args:
        end: how the process ended.
        folder: where it left its answer, and what is shown if it is good.
        noun: what it was to do, such as "The comparison".
        limits: what it was allowed.
        time_limit_s: how long it was allowed.

    """
    failure = explain_end(end, noun=noun, limits=limits, time_limit_s=time_limit_s)
    if failure is not None:
        return failure
    try:
        result = read_answer(DiffResult, folder / ANSWER)
    except ProtocolError as error:
        return explain_silence(end, error, noun=noun)
    if result.status == "ok" and not _is_plain(folder):
        return _fail("crashed", f"{noun} left something else than regular files; nothing of it is shown.")
    return result


def explain_end(end: ProcessEnd, *, noun: str, limits: Mapping[str, int], time_limit_s: float) -> DiffResult | None:
    """Return the failure of a process that was ended because it took more than it may."""
    match end.ending:
        case Ending.OVER_TIME:
            return _fail("time_limit", f"It took longer than {time_limit_s:g} s and was stopped.")
        case Ending.OVER_DISK:
            allowed = f"{limits['disk_bytes']:,} bytes, or more than {MOST_FILES:,} files,"
            return _fail("disk_limit", f"{noun} wrote more than {allowed} and was ended.")
        case Ending.OVER_MEMORY:
            most = limits["total_memory_bytes"]
            return _fail("memory_limit", f"{noun} held more than {most:,} bytes of memory and was ended.")
        case _:
            return None


def explain_silence(end: ProcessEnd, error: ProtocolError, *, noun: str) -> DiffResult:
    """Return the failure of a process that has left no answer that can be read."""
    has_run = end.ending is not Ending.NO_SANDBOX
    what = f"{noun} ended with code {end.code}" if has_run else "The sandbox could not be made"
    return _fail("crashed", f"{what}: {error}")


def read_json(path: Path) -> dict[str, Any]:
    """Return an object that a process wrote; empty where there is none that can be stored."""
    try:
        value = load_storable(read_regular(path, at_most=MAX_MESSAGE_BYTES))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_plain(folder: Path) -> bool:
    """Return whether a folder holds folders and regular files alone: pages read them, and a link leads elsewhere."""
    kinds = [(Path(root, name).lstat().st_mode) for root, folders, files in os.walk(folder) for name in folders + files]
    return all(stat.S_ISREG(kind) or stat.S_ISDIR(kind) for kind in kinds)


def _fail(code: DiffFailure, message: str) -> DiffResult:
    return DiffResult(status="failed", code=code, message=message)
