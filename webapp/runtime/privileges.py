"""The rights of root that a part does without: what it cannot do, nobody who takes it over can do either."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection

CHOWN, DAC_OVERRIDE, FOWNER = 0, 1, 3
FILES_OF_OTHERS = frozenset({CHOWN, DAC_OVERRIDE, FOWNER})
"""What it takes to clear away what a killed job, which has a user of its own, left behind."""
NOTHING: frozenset[int] = frozenset()
_LAST_CAPABILITY = 63
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 24, 38
_VERSION_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


def keep_only(capabilities: Collection[int]) -> None:
    """Give up all other rights of root, for the program that this process is about to become and all that it starts.

    Called between fork and exec: a program that root executes gets what the bounding set holds, and nothing inherited.
    Somebody else than root has no such rights to begin with.
    """
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.geteuid() != 0:
        return
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in capabilities:
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()
    _libc.capget(ctypes.byref(header), ctypes.byref(sets))
    sets[2] = sets[5] = 0  # inheritable, of either half
    _libc.capset(ctypes.byref(header), ctypes.byref(sets))


def hide_memory() -> None:
    """Keep processes of the same user out of this one's memory, environment and open files, and write no core of it.

    For what holds secrets. It passes on to what is forked, and ends with the next program that is executed.
    """
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
