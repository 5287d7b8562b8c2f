"""A disk that takes its time: with this folder on PYTHONPATH every fsync waits SLOW_FSYNC_S seconds first."""

from __future__ import annotations

import os
import time

_WAIT_S = float(os.environ.get("SLOW_FSYNC_S", "0"))
_fsync = os.fsync


def _slow_fsync(descriptor: int) -> None:
    time.sleep(_WAIT_S)
    _fsync(descriptor)


os.fsync = _slow_fsync
