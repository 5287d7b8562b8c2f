"""Records which files of a repository its code loads, opens, lists or looks for.

Python reports what it opens itself (`sys.addaudithook`). Libraries such as Polars and DuckDB open files on their own:
the kernel reports those (inotify). A key names one dependency:

`code:pipelines/a.py`  a module that was imported; comments, layout and docstrings do not count
`file:conf/a.json`     the bytes of a file, or its absence
`list:conf`            the names in a folder
`data:pipelines`       the same without Python modules
`stat:conf/a.json`     whether it is a file, a folder or absent
`paths:`               the paths of all files but modules
`tree:`                the whole repository
"""

from __future__ import annotations

import _posixsubprocess
import builtins
import ctypes
import ctypes.util
import glob
import importlib
import importlib.util
import os
import pathlib
import platform
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, ModuleType
from typing import Any

TREE = "tree:"
PATHS = "paths:"
MAX_FOLDERS = 5000
"""Folders that the kernel watches; a repository with more depends on all its files."""
_IMPORTLIB = "<frozen importlib."
_REALPATH = frozenset({"realpath", "_joinrealpath"})
_LISTERS = frozenset(code.__code__.co_filename for code in (os.walk, glob.glob, pathlib.Path.glob))
"""Files of the standard library that list a folder and take only names and kinds from it."""
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
_LOOK_UPS = frozenset({"os.chdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "sqlite3.connect"})
"""Events that fail or not by what is at their path."""
_PROGRAMS = frozenset({"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty"})
_ASKING_SYSTEM = frozenset(module.__file__ for module in (platform, ctypes.util))
"""Modules that start programs to learn about the system."""
_EVENTS = frozenset({"open", "os.listdir", "os.scandir", *_LOOK_UPS, *_PROGRAMS})
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_IN_OPEN, _IN_OVERFLOW, _IN_ISDIR = 0x20, 0x4000, 0x40000000
_IN_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_stat = os.stat
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Trace:
    """What the code of one repository used so far, by the module that used it.

    `edges` and `keys` are keyed by the path of a module, or "" where no module of the repository was at work.
    """

    root: str
    modules: set[str] = field(default_factory=set)
    """The paths of all imported modules."""
    edges: dict[str, set[str]] = field(default_factory=dict)
    """Module → modules that it imported."""
    keys: dict[str, set[str]] = field(default_factory=dict)
    """Module → keys of everything else that it used."""
    is_running: bool = False
    """Whether the transform runs; before that its modules are imported."""
    imported_later: set[str] = field(default_factory=set)
    """Modules that were imported while it runs."""
    searched: set[str] = field(default_factory=set)
    """Folders that Python is listing to look for modules, not reported by the kernel yet."""
    _watcher: _Watcher | None = None

    def list_closure(self, path: str) -> set[str]:
        """Return a module, everything that it imported directly or indirectly, and the packages around them."""
        closure: set[str] = set()
        pending = [path]
        while pending:
            current = pending.pop()
            if current not in closure:
                closure.add(current)
                pending += self.edges.get(current, ())
                pending += [package for package in _list_packages(current) if package in self.modules]
        return closure

    def list_keys(self, paths: set[str] | None = None) -> set[str]:
        """Return everything else that these modules used, or that all of them did."""
        self.drain()
        used = self.keys.values() if paths is None else [self.keys.get(path, set()) for path in (*paths, "")]
        return set().union(*used)

    def add(self, key: str, by: str | None = None) -> None:
        """Record a use by a module; by default the one at work."""
        self.keys.setdefault(_find_user(self.root) if by is None else by, set()).add(key)

    def add_import(self, path: str, by: str | None = None) -> None:
        """Record that a module was imported."""
        user = _find_user(self.root) if by is None else by
        if self.is_running:
            self.imported_later.add(path)
        self.modules.add(path)
        self.edges.setdefault(user, set()).add(path)

    def add_modules(self, module: ModuleType, names: tuple[str, ...], importer: str) -> None:
        """Record the import of a module and of the named modules inside it, by code in a file."""
        self.drain(by=self.find_path(getattr(module, "__file__", None)))
        if "*" in names:
            names = (*names, *getattr(module, "__all__", ()))
        inner = [sys.modules.get(f"{module.__name__}.{name}") for name in names if isinstance(name, str)]
        if self.is_running:
            self._look_for(module, names, importer)
        for entry in (module, *inner):
            path = None if entry is None else self.find_path(getattr(entry, "__file__", None))
            if path is not None:
                self.add_import(path)

    def _look_for(self, module: ModuleType, names: tuple[str, ...], importer: str) -> None:
        """Record what may be added to the repository and would be imported in the place of something else."""
        if self.find_path(getattr(module, "__file__", None)) is None:
            self.add_absent(module.__name__.partition(".")[0], importer)
        for name in names:
            if name != "*" and not hasattr(module, name):
                self.add_absent(f"{module.__name__}.{name}", importer)

    def add_absent(self, name: str, importer: str) -> None:
        """Record that a module was looked for and is not in the repository: it may be added."""
        if self.find_path(importer) is not None:
            places = [self.root, *(place for place in sys.path if self.find_path(place) not in (None, "."))]
            for place in places:
                path = self.find_path(os.path.join(place, *name.split("."))) or ""
                self.add(f"stat:{path}")
                self.add(f"stat:{path}.py")

    def find_source(self, code: CodeType) -> str | None:
        """Return the path of the module in which code is written, None if that is none of the repository."""
        return self.find_path(code.co_filename) if os.path.isabs(code.co_filename) else None

    def find_path(self, path: object) -> str | None:
        """Return a path inside the repository as relative text, None for any other."""
        if isinstance(path, int) and (path := _read_descriptor(path)) is None:
            return None
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        text = os.path.abspath(os.fsdecode(path))
        if text == self.root:
            return "."
        return text[len(self.root) + 1 :] if text.startswith(self.root + os.sep) else None

    def add_look_up(self, path: Any, folder: int | None) -> None:
        """Record that code asked for the state of a path: the size of a file is told by its bytes.

        Args:
            path: as the code gave it.
            folder: the open folder in which it is.

        """
        caller = _find_caller()
        if folder is not None and isinstance(path, str | bytes | os.PathLike):
            path = os.path.join(_read_descriptor(folder) or "", os.fsdecode(path))
        # following links to the real path of a module says nothing about files
        if caller is None or caller.f_code.co_name in _REALPATH or (inside := self.find_path(path)) is None:
            return
        self.add_state(inside, is_kind=_is_question(caller))

    def add_state(self, path: str, *, is_kind: bool) -> None:
        """Record the use of what is at a path, or of nothing but whether it is a file, a folder or absent."""
        is_file = not is_kind and self._is_file(path)
        self.add(f"{'file' if is_file else 'stat'}:{path}")

    def _is_file(self, path: str) -> bool:
        try:
            return stat.S_ISREG(_stat(os.path.join(self.root, path)).st_mode)
        except OSError:
            return False

    def add_program(self) -> None:
        """Record that another process was started: what it looks for cannot be followed."""
        frame = _find_caller()
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self.root + os.sep):
                break
            # a library that learns about the system, most of them while they are imported
            if frame.f_code.co_name == "<module>" or file in _ASKING_SYSTEM or file.startswith(_OURS):
                return
            frame = frame.f_back
        self.add(TREE)

    def drain(self, by: str | None = None) -> None:
        """Record what libraries opened since the last call as used by a module; by default the one at work."""
        if self._watcher is None:
            return
        events = list(self._watcher.read())
        if not events:
            return
        user = _find_user(self.root) if by is None else by
        opened = set().union(*self.keys.values())
        for path, is_folder in events:
            if path is None:
                self.add(TREE, user)
            elif is_folder:
                if path in self.searched:
                    self.searched.discard(path)
                else:
                    self.add(f"list:{path}", user)
            elif path not in self.modules and f"file:{path}" not in opened:
                self.add(f"file:{path}", user)
                # a library that expands "conf/*.csv" lists the folder first
                self.add(f"data:{os.path.dirname(path) or '.'}", user)

    def on_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Record one event of the interpreter."""
        if event in _PROGRAMS:
            self.add_program()
            return
        place = "." if args[0] is None else args[0]
        if event == "sqlite3.connect" and isinstance(place, str):
            place = place.removeprefix("file:").partition("?")[0]
        path = self.find_path(place)
        if path is None:
            return
        caller = _find_caller()
        is_import = caller is not None and caller.f_code.co_filename.startswith(_IMPORTLIB)
        if event in _LOOK_UPS:
            self.add_state(path, is_kind=True)
        elif event != "open":
            self._add_listing(path, caller, is_import=is_import, is_scan=event == "os.scandir")
        elif is_import and path.endswith(".py") and _is_called_by(caller, "get_code"):
            self.add_import(path)
        else:
            self.add(f"file:{path}")

    def _add_listing(self, path: str, caller: FrameType | None, *, is_import: bool, is_scan: bool) -> None:
        if is_import:
            self.drain()
            self.searched.add(path)
            return
        self.add(f"list:{path}")
        if is_scan and caller is not None and caller.f_code.co_filename not in _LISTERS:
            for name in os.listdir(os.path.join(self.root, path)):
                self.add_state(os.path.normpath(os.path.join(path, name)), is_kind=False)


_active: Trace | None = None
_is_hooked = False


def start_trace(root: str) -> Trace:
    """Start recording in this process, in place of an earlier trace."""
    global _active, _is_hooked  # noqa: PLW0603 - a hook of the interpreter is for the process and for ever
    _active = None
    trace = Trace(os.path.abspath(root), _watcher=_Watcher.open(root))
    if trace._watcher is None:
        trace.add(TREE, "")
    if not _is_hooked:
        sys.addaudithook(_hook)
        _wrap_imports()
        for name in ("stat", "lstat", "access"):
            _wrap_look_up(name)
        _wrap_spawn()
        os.register_at_fork(after_in_child=_forget)
        _is_hooked = True
    _active = trace
    return trace


def stop_trace() -> None:
    """Stop recording."""
    global _active  # noqa: PLW0603 - see above
    if _active is not None:
        _active.drain()
        _active = None


def _forget() -> None:
    """Stop recording in a fork, which would take away what the kernel reports to its parent."""
    global _active  # noqa: PLW0603 - see above
    _active = None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _active is not None and event in _EVENTS:
        _record(_active, lambda trace: trace.on_event(event, args))


def _record(trace: Trace, act: Callable[[Trace], object]) -> None:
    """Record something; what cannot be recorded ends nothing of the code that is recorded, and makes all files count."""
    try:
        act(trace)
    except Exception:
        trace.keys.setdefault("", set()).add(TREE)


def _wrap_imports() -> None:
    """Learn of imports of modules that are loaded already: the interpreter reports only the first one."""
    load, load_named, find = builtins.__import__, importlib.import_module, importlib.util.find_spec

    def follow(trace: Trace, name: str, names: tuple[str, ...], act: Callable[[], ModuleType]) -> ModuleType:
        caller = _find_caller()
        importer = "" if caller is None else caller.f_code.co_filename
        _record(trace, Trace.drain)
        try:
            module = act()
        except ImportError:
            _record(trace, lambda trace: trace.add_absent(name, importer))
            raise
        _record(trace, lambda trace: trace.add_modules(sys.modules.get(name, module), names, importer))
        return module

    def import_(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if _active is None:
            return load(name, globals, locals, fromlist, level)
        full = importlib.util.resolve_name("." * level + name, _find_package(globals)) if level else name
        return follow(_active, full, tuple(fromlist or ()), lambda: load(name, globals, locals, fromlist, level))

    def import_module(name: str, package: str | None = None) -> ModuleType:
        if _active is None:
            return load_named(name, package)
        full = importlib.util.resolve_name(name, package) if package and name.startswith(".") else name
        return follow(_active, full, (), lambda: load_named(name, package))

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        if _active is not None:
            caller = _find_caller()
            importer = "" if caller is None else caller.f_code.co_filename
            full = importlib.util.resolve_name(name, package)
            _record(_active, lambda trace: trace.add_absent(full, importer))
        return find(name, package)

    builtins.__import__ = import_
    importlib.import_module = import_module
    importlib.util.find_spec = find_spec


def _find_package(globals: Any) -> str:
    scope = globals or {}
    name = str(scope.get("__name__", ""))
    return str(scope.get("__package__") or (name if "__path__" in scope else name.rpartition(".")[0]))


def _wrap_look_up(name: str) -> None:
    """Record for which paths Python code asks, of which the interpreter reports nothing."""
    ask: Callable[..., Any] = getattr(os, name)

    def look_up(path: Any, *args: Any, **kwargs: Any) -> Any:
        trace = _active
        if trace is not None:
            _record(trace, lambda trace: trace.add_look_up(path, kwargs.get("dir_fd")))
        return ask(path, *args, **kwargs)

    for supporting in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if ask in supporting:
            supporting.add(look_up)
    setattr(os, name, look_up)


def _wrap_spawn() -> None:
    """Learn of programs that `multiprocessing` starts, of which the interpreter reports nothing."""
    spawn: Callable[..., int] = _posixsubprocess.fork_exec

    def fork_exec(*args: Any) -> int:
        if _active is not None:
            _record(_active, Trace.add_program)
        return spawn(*args)

    setattr(_posixsubprocess, "fork_exec", fork_exec)  # noqa: B010 - it has no type


def _is_question(frame: FrameType) -> bool:
    """Return whether a function of the standard library asks only whether something is a file, a folder or absent."""
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_filename in _QUESTIONS:
        if caller.f_code.co_name in _KINDS:
            return True
        caller = caller.f_back
    return False


def _find_user(root: str) -> str:
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


def _find_caller() -> FrameType | None:
    """Return the frame outside of this module; None if no Python code called it, as from a library's own thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _is_called_by(frame: FrameType | None, name: str) -> bool:
    return frame is not None and frame.f_back is not None and frame.f_back.f_code.co_name == name


def _read_descriptor(number: int) -> str | None:
    """Return the path of an open file or folder; None for a pipe and the like."""
    try:
        path = os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return None
    return path if path.startswith(os.sep) else None


def _list_packages(path: str) -> Iterator[str]:
    parts = path.split("/")[:-1]
    for length in range(1, len(parts) + 1):
        yield "/".join((*parts[:length], "__init__.py"))


class _Watcher:
    """Asks the kernel which files of a folder are opened, by this process or one that it starts."""

    def __init__(self, descriptor: int, folders: dict[int, str]) -> None:
        self._descriptor = descriptor
        self._folders = folders

    @classmethod
    def open(cls, root: str) -> _Watcher | None:
        """Watch all folders; None where that cannot be."""
        descriptor = _libc.inotify_init1(_IN_FLAGS)
        if descriptor < 0:
            return None
        folders: dict[int, str] = {}
        for folder, _, _ in os.walk(root):
            number = _libc.inotify_add_watch(descriptor, os.fsencode(folder), ctypes.c_uint32(_IN_OPEN))
            if number < 0 or len(folders) >= MAX_FOLDERS:
                os.close(descriptor)
                return None
            folders[number] = os.path.relpath(folder, root)
        watcher = cls(descriptor, folders)
        for _ in watcher.read():
            pass  # our own walk
        return watcher

    def read(self) -> Iterator[tuple[str | None, bool]]:
        """Yield each path that was opened and whether it is a folder; no path means that some were lost."""
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except BlockingIOError:
                return
            except OSError:
                # the repository's code closed it
                yield None, False
                return
            yield from self._parse(data)

    def _parse(self, data: bytes) -> Iterator[tuple[str | None, bool]]:
        start = 0
        while start < len(data):
            number, mask, _, length = struct.unpack_from("iIII", data, start)
            name = os.fsdecode(data[start + 16 : start + 16 + length].rstrip(b"\0"))
            start += 16 + length
            if mask & _IN_OVERFLOW or (number not in self._folders and number >= 0 and not mask & 0x8000):
                yield None, False
            elif mask & _IN_ISDIR and name:
                continue  # each folder reports this itself, too
            elif number in self._folders:
                folder = self._folders[number]
                yield os.path.normpath(os.path.join(folder, name)), bool(mask & _IN_ISDIR)
