"""The record of which files of a repository its code loads, opens, lists or looks for.

Python reports what it opens itself (`sys.addaudithook`). Libraries such as Polars and DuckDB open files on their own:
the kernel reports those (inotify). A key names one dependency:

`code:pipelines/a.py`  a module that was imported; comments, layout and docstrings do not count
`file:conf/a.json`     the bytes of a file, or its absence
`list:conf`            the names in a folder
`data:pipelines`       the same without Python modules
`stat:conf/a.json`     whether it is a file, a folder or absent
`seek:.library.yaml`   the same of what is absent, and a library looked for on its own
`paths:`               the paths of all files but modules
`tree:`                the whole repository

`jobs.transforms.interpreter_hooks` starts a trace and reports to it.
"""

from __future__ import annotations

import ctypes.util
import glob
import os
import pathlib
import platform
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType, ModuleType
from typing import Any

from jobs.transforms.file_watcher import FileWatcher
from jobs.transforms.stack_frames import (
    find_caller,
    find_user,
    is_by_library,
    is_called_by,
    is_question,
    read_descriptor,
)

TREE = "tree:"
PATHS = "paths:"
_IMPORTLIB = "<frozen importlib."
_REALPATH = frozenset({"realpath", "_joinrealpath"})
_LISTERS = frozenset(code.__code__.co_filename for code in (os.walk, glob.glob, pathlib.Path.glob))
"""Files of the standard library that list a folder and take only names and kinds from it."""
_LOOK_UPS = frozenset(
    {
        "os.chdir", "os.chmod", "os.chown", "os.getxattr", "os.listxattr", "os.mkdir", "os.remove", "os.removexattr",
        "os.rename", "os.rmdir", "os.setxattr", "os.truncate", "os.utime", "sqlite3.connect",
    }
)  # fmt: skip
"""Events that fail or not by what is at their path."""
_PROGRAMS = frozenset({"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty"})
_ASKING_SYSTEM = frozenset(module.__file__ for module in (platform, ctypes.util))
"""Modules that start programs to learn about the system."""
_LINKS = frozenset({"os.symlink", "os.link"})
EVENTS = frozenset({"open", "os.listdir", "os.scandir", *_LOOK_UPS, *_PROGRAMS, *_LINKS})
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LINKED = ("/proc/", "/dev/")
"""Folders with links to wherever the process is, or has something open."""
_stat = os.stat


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
    named: set[str] = field(default_factory=set)
    """Modules that a library imported by a name that it was given, such as one in a pickle."""
    searched: set[str] = field(default_factory=set)
    """Folders that Python is listing to look for modules, not reported by the kernel yet."""
    loading: set[str] = field(default_factory=set)
    """Modules that Python is reading to import them, not reported by the kernel yet."""
    watcher: FileWatcher | None = None
    loaded_before: frozenset[str] = field(default_factory=lambda: frozenset(sys.modules))
    """Modules that no file of the repository can replace, because Python has them already."""

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
        used = self.keys.values() if paths is None else [self.keys.get(path, set()) for path in (*paths, "")]
        return set().union(*used)

    def add(self, key: str, by: str | None = None) -> None:
        """Record a use by a module; by default the one at work."""
        self.keys.setdefault(find_user(self.root) if by is None else by, set()).add(key)

    def add_import(self, path: str, by: str | None = None) -> None:
        """Record that a module was imported."""
        user = find_user(self.root) if by is None else by
        if self.is_running:
            self.imported_later.add(path)
        self.modules.add(path)
        self.edges.setdefault(user, set()).add(path)

    def add_modules(self, module: ModuleType, names: tuple[str, ...], importer: str, *, is_statement: bool) -> None:
        """Record the import of a module and of the named modules inside it.

        Args:
            module: what was imported.
            names: of what else.
            importer: the file with the code that imported it.
            is_statement: whether that is an `import` statement of it.

        """
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
                if not importer.startswith(_OURS) and not (is_statement and self.find_path(importer)):
                    self.named.add(path)

    def _look_for(self, module: ModuleType, names: tuple[str, ...], importer: str) -> None:
        """Record what may be added to the repository and would be imported in the place of something else."""
        top = module.__name__.partition(".")[0]
        if top not in self.loaded_before and self.find_path(getattr(module, "__file__", None)) is None:
            self.add_absent(top, importer, kind="seek")
        for name in names:
            if name != "*" and not hasattr(module, name):
                self.add_absent(f"{module.__name__}.{name}", importer)

    def add_absent(self, name: str, importer: str, *, kind: str = "stat") -> None:
        """Record that a module was looked for and is not in the repository: it may be added."""
        if self.find_path(importer) is not None:
            places = [self.root, *(place for place in sys.path if self.find_path(place) not in (None, "."))]
            for place in places:
                path = self.find_path(os.path.join(place, *name.split("."))) or ""
                self.add(f"{kind}:{path}")
                self.add(f"{kind}:{path}.py")

    def find_source(self, code: CodeType) -> str | None:
        """Return the path of the module in which code is written, None if that is none of the repository."""
        return self.find_path(code.co_filename) if os.path.isabs(code.co_filename) else None

    def find_path(self, path: object) -> str | None:
        """Return a path inside the repository as relative text, None for any other."""
        if isinstance(path, int) and (path := read_descriptor(path)) is None:
            return None
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        text = os.fsdecode(path)
        # before `..` is taken out of it, which may be that of the folder that a link leads to
        text = os.path.realpath(text) if text.startswith(_LINKED) else os.path.abspath(text)
        if text == self.root:
            return "."
        return text[len(self.root) + 1 :] if text.startswith(self.root + os.sep) else None

    def add_look_up(self, path: Any, folder: int | None) -> None:
        """Record that code asked for the state of a path: the size of a file is told by its bytes.

        Args:
            path: as the code gave it.
            folder: the open folder in which it is.

        """
        caller = find_caller()
        if folder is not None and isinstance(path, str | bytes | os.PathLike):
            path = os.path.join(read_descriptor(folder) or "", os.fsdecode(path))
        # following links to the real path of a module says nothing about files, unless it fails where there is none
        is_real = caller is not None and caller.f_code.co_name in _REALPATH
        if caller is None or (is_real and not caller.f_locals.get("strict", True)):
            return
        if (inside := self.find_path(path)) is not None:
            self.add_state(inside, is_kind=is_real or is_question(caller))

    def add_state(self, path: str, *, is_kind: bool) -> None:
        """Record the use of what is at a path, or of nothing but whether it is a file, a folder or absent."""
        mode = self._read_mode(path)
        is_file = not is_kind and mode is not None and stat.S_ISREG(mode)
        self.add(f"{'file' if is_file else self._name_look(path)}:{path}")
        if not is_kind and mode is not None and stat.S_ISDIR(mode):
            # its size and links are those of what is in it
            self.add(f"list:{path}")

    def _read_mode(self, path: str) -> int | None:
        try:
            return _stat(os.path.join(self.root, path)).st_mode
        except (OSError, ValueError):
            return None

    def _name_look(self, path: str, kind: str = "stat") -> str:
        """Return the kind of key for a path that was asked for."""
        return "seek" if self._read_mode(path) is None and is_by_library(self.root, _OURS) else kind

    def add_program(self) -> None:
        """Record that another process was started: what it looks for cannot be followed."""
        frame = find_caller()
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
        if self.watcher is None:
            return
        events = list(self.watcher.read())
        if not events:
            return
        user = find_user(self.root) if by is None else by
        opened = set().union(*self.keys.values())
        for path, is_folder in events:
            if path is None:
                self.add(TREE, user)
            elif is_folder:
                if path in self.searched:
                    self.searched.discard(path)
                else:
                    self.add(f"list:{path}", user)
            elif path in self.loading:
                self.loading.discard(path)
            elif f"file:{path}" not in opened:
                self.add(f"file:{path}", user)
                # a library that expands "conf/*.csv" lists the folder first
                self.add(f"data:{os.path.dirname(path) or '.'}", user)

    def on_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Record one event of the interpreter."""
        if event in _PROGRAMS:
            self.add_program()
            return
        if event in _LINKS:
            self._add_link(*args[:2])
            return
        place = "." if args[0] is None else args[0]
        if event == "sqlite3.connect" and isinstance(place, str):
            place = place.removeprefix("file:").partition("?")[0]
        path = self.find_path(place)
        if path is None:
            return
        caller = find_caller()
        is_import = caller is not None and caller.f_code.co_filename.startswith(_IMPORTLIB)
        if event in _LOOK_UPS:
            self.add_state(path, is_kind=True)
        elif event != "open":
            self._add_listing(path, caller, is_import=is_import, is_scan=event == "os.scandir")
        elif is_import and path.endswith(".py") and is_called_by(caller, "get_code"):
            self.loading.add(path)
            self.add_import(path)
        else:
            self.add(f"{self._name_look(path, 'file')}:{path}")

    def _add_link(self, target: Any, link: Any) -> None:
        """Record a link to the repository or a folder around it: what is asked for by it cannot be followed."""
        folder = os.path.dirname(os.path.abspath(os.fsdecode(link)))
        place = os.path.abspath(os.path.join(folder, os.fsdecode(target)))
        if (
            self.find_path(place) is not None
            or place.startswith(_LINKED)
            or f"{self.root}/".startswith(f"{place.rstrip('/')}/")
        ):
            self.add(TREE)

    def _add_listing(self, path: str, caller: FrameType | None, *, is_import: bool, is_scan: bool) -> None:
        if is_import:
            self.drain()
            self.searched.add(path)
            return
        self.add(f"list:{path}")
        if is_scan and caller is not None and caller.f_code.co_filename not in _LISTERS:
            for name in os.listdir(os.path.join(self.root, path)):
                self.add_state(os.path.normpath(os.path.join(path, name)), is_kind=False)


def _list_packages(path: str) -> Iterator[str]:
    parts = path.split("/")[:-1]
    for length in range(1, len(parts) + 1):
        yield "/".join((*parts[:length], "__init__.py"))
