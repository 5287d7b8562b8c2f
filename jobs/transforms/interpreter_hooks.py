"""Reports to a trace what Python code opens, imports, starts or asks for."""

from __future__ import annotations

import _posixsubprocess
import builtins
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from jobs.transforms.file_watcher import FileWatcher
from jobs.transforms.stack_frames import find_caller, is_importing
from jobs.transforms.trace import EVENTS, TREE, Trace

_active: Trace | None = None
_is_hooked = False


def start_trace(root: str) -> Trace:
    """Start recording in this process, in place of an earlier trace."""
    global _active, _is_hooked  # noqa: PLW0603 - a hook of the interpreter is for the process and for ever
    _active = None
    trace = Trace(os.path.abspath(root), watcher=FileWatcher.open(root))
    if trace.watcher is None:
        trace.add(TREE, "")
    if not _is_hooked:
        sys.addaudithook(_hook)
        _wrap_imports()
        for name in ("stat", "lstat", "access", "readlink", "mkfifo", "mknod"):
            _wrap_look_up(name)
        _wrap_spawn()
        os.register_at_fork(after_in_child=_forget)
        _is_hooked = True
    _active = trace
    return trace


def stop_trace() -> None:
    """Stop recording: what is opened from now on is not used by the repository's code."""
    global _active  # noqa: PLW0603 - see above
    if _active is not None:
        _active.drain()
        if _active.watcher is not None:
            _active.watcher.close()
            _active.watcher = None
        _active = None


def _forget() -> None:
    """Stop recording in a fork, which would take away what the kernel reports to its parent."""
    global _active  # noqa: PLW0603 - see above
    _active = None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _active is not None and event in EVENTS:
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

    def follow(
        trace: Trace, name: str, names: tuple[str, ...], act: Callable[[], ModuleType], *, is_statement: bool = False
    ) -> ModuleType:
        caller = find_caller()
        importer = "" if caller is None else caller.f_code.co_filename
        is_statement = is_statement and caller is not None and is_importing(caller)
        _record(trace, Trace.drain)
        try:
            module = act()
        except ImportError:
            _record(trace, lambda trace: trace.add_absent(name, importer))
            raise
        _record(
            trace,
            lambda trace: trace.add_modules(sys.modules.get(name, module), names, importer, is_statement=is_statement),
        )
        return module

    def import_(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if _active is None:
            return load(name, globals, locals, fromlist, level)
        full = importlib.util.resolve_name("." * level + name, _find_package(globals)) if level else name
        act = partial(load, name, globals, locals, fromlist, level)
        return follow(_active, full, tuple(fromlist or ()), act, is_statement=True)

    def import_module(name: str, package: str | None = None) -> ModuleType:
        if _active is None:
            return load_named(name, package)
        full = importlib.util.resolve_name(name, package) if package and name.startswith(".") else name
        return follow(_active, full, (), lambda: load_named(name, package))

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        if _active is not None:
            caller = find_caller()
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
