"""Which code of a repository is at work, by the frames on the stack."""

from __future__ import annotations

import opcode
import os
import pathlib
import sys
from types import FrameType

_IMPORT = opcode.opmap["IMPORT_NAME"]
_FOLDER = os.path.dirname(__file__)
RECORDING = frozenset(
    os.path.join(_FOLDER, f"{name}.py") for name in ("file_watcher", "interpreter_hooks", "stack_frames", "trace")
)
"""Files of the modules that record; their frames are not user code."""
_QUESTIONS = frozenset(code.__code__.co_filename for code in (os.path.exists, os.path.lexists, pathlib.Path.exists))
_KINDS = frozenset(
    {
        "exists",
        "lexists",
        "isfile",
        "isdir",
        "islink",
        "ismount",
        "is_file",
        "is_dir",
        "is_symlink",
        "is_mount",
        "resolve",
    }
)
"""Functions that ask for nothing of a path but whether it is a file, a folder or absent."""


def is_question(frame: FrameType) -> bool:
    """Return whether a function of the standard library asks only whether something is a file, a folder or absent."""
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_filename in _QUESTIONS:
        if caller.f_code.co_name in _KINDS:
            return True
        caller = caller.f_back
    return False


def find_user(root: str) -> str:
    """Return the path of the module at work: the one that is being imported, else the nearest on the stack."""
    nearest = ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(root + os.sep):
            path = file[len(root) + 1 :]
            if frame.f_code.co_name == "<module>":
                return path
            nearest = nearest or path
        frame = frame.f_back
    return nearest


def find_caller() -> FrameType | None:
    """Return the frame outside of the modules that record; None if no Python code called it, as from a library's own thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in RECORDING:
        frame = frame.f_back
    return frame


def is_by_library(root: str, ours: str) -> bool:
    """Return whether a library asks for something on its own: while it is imported, in a thread, or when our code uses it.

    Args:
        root: the folder of the repository.
        ours: the folder with our code.

    """
    frame = find_caller()
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(root + os.sep):
            return False
        if frame.f_code.co_name == "<module>" or (file.startswith(ours) and file not in RECORDING):
            return True
        frame = frame.f_back
    return True


def is_called_by(frame: FrameType | None, name: str) -> bool:
    """Return whether a function of a name called the one of a frame."""
    return frame is not None and frame.f_back is not None and frame.f_back.f_code.co_name == name


def is_importing(frame: FrameType) -> bool:
    """Return whether a frame is at an `import` statement; a library written in C imports by a name it was given."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _IMPORT


def read_descriptor(number: int) -> str | None:
    """Return the path of an open file or folder; None for a pipe and the like."""
    try:
        path = os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return None
    return path if path.startswith(os.sep) else None
