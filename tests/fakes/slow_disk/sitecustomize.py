"""A disk that takes its time: with this folder on PYTHONPATH every fsync waits SLOW_FSYNC_S seconds first.

While the file SLOW_FSYNC_HELD exists none ends; `<that file>.waiting` tells that one has begun.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_WAIT_S = float(os.environ.get("SLOW_FSYNC_S", "0"))
_HELD = os.environ.get("SLOW_FSYNC_HELD")
_fsync = os.fsync


def _slow_fsync(descriptor: int) -> None:
    time.sleep(_WAIT_S)
    while _HELD and Path(_HELD).exists():
        Path(f"{_HELD}.waiting").touch()
        time.sleep(0.02)
    _fsync(descriptor)


os.fsync = _slow_fsync
