"""A process that ends with the one that started it, even by `kill -9`."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; end at once if the parent is gone already.

    The signal is bound to the parent's thread that forked this process: only a main thread may start such children.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
