"""Leaves out of a module what a transform certainly never runs: other transforms, and helpers that nothing names.

A statement at module level is left out only if running it has no effect but to bind names (a plain function, a transform's
declaration, a constant), and none of these names occurs in any code that is kept. Names are compared as text, wherever
they occur. Code that looks names up at run time (`globals`, `getattr`, …) keeps everything that it can reach.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from jobs.transforms.module_code import ModuleCode

REFLECTION = frozenset(
    {
        "globals", "locals", "vars", "eval", "exec", "dir", "inspect", "gc", "ctypes", "runpy", "_getframe", "currentframe",
        "f_globals", "f_locals", "f_back", "__globals__", "__dict__", "__builtins__", "list_declared", "FunctionType",
        "pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "unsafe_load", "UnsafeLoader", "FullLoader",
        "pydoc", "reload", "modules",
    }
)  # fmt: skip
"""Names with which code reaches other code without naming it: then nothing at all is left out."""
LOOKUP = frozenset(
    {
        "getattr", "attrgetter", "methodcaller", "__getattribute__", "import_module", "__import__",
        "resolve_name", "pkgutil", "entry_points", "EntryPoint", "dictConfig", "fileConfig", "importlib",
        "Formatter", "vformat",
    }
)  # fmt: skip
"""Names that look names up in a module: then nothing of a module is left out that any of the code imports."""
TEXT = frozenset(
    {
        "__doc__", "getdoc", "getsource", "getsourcelines", "findsource", "f_lineno", "co_firstlineno", "tb_lineno",
        "co_lines", "co_positions", "co_consts", "co_linetable", "lineno", "catch_warnings", "showwarning", "findCaller",
        "faulthandler", "doctest", "help",
    }
)  # fmt: skip
"""Names with which code reads docstrings, comments or line numbers: then the text of each module counts."""
WORDS = frozenset({"help", "lineno", "modules", "dir", "reload", "inspect"})
"""Names of these that are ordinary words in texts."""
UNFOLLOWED = frozenset(
    {
        "PathFinder", "FileFinder", "get_file_info", "FileSelector", "LocalFileSystem", "statvfs", "disk_usage", "getxattr",
        "listxattr", "pathconf", "utime", "st_nlink", "posix", "tzset", "CDLL", "create_default_context",
    }
)  # fmt: skip
"""Names with which code looks for files without opening them, which nothing reports: then all files count."""
ACTIVE = frozenset(
    {
        "__getattr__", "__getattribute__", "__get__", "property", "cached_property", "__getitem__", "__missing__",
        "__class_getitem__", "defaultdict",
    }
)  # fmt: skip
"""Names with which code acts where another piece reads an attribute or an item."""


def keep_statements(
    modules: Collection[ModuleCode], *, roots: Mapping[str, int], names: Iterable[str], is_whole: Collection[str]
) -> dict[str, list[int]]:
    """Return for each module the indices of the statements that are kept.

    Args:
        modules: all code that is loaded.
        roots: path of a module → index of a statement that is kept.
        names: names that are used from elsewhere.
        is_whole: paths of modules of which nothing is left out.

    """
    choice: dict[str, set[int]] = {}
    pending = set(names)
    is_active = any(code.names & ACTIVE for code in modules)
    for code in modules:
        choice[code.path] = set(range(len(code.statements)) if code.path in is_whole else code.base)
        pending |= code.list_uses(choice[code.path]) if code.path in is_whole else code.base_uses
        if is_active:
            choice[code.path] |= code.reading
            pending |= code.list_uses(code.reading)
        root = roots.get(code.path)
        if root is not None:
            choice[code.path].add(root)
            pending |= code.statements[root].uses
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        seen.add(name)
        for code in modules:
            pending |= {code.renamed[name]} - seen if name in code.renamed else set()
            for index in code.optional.get(name, ()):
                if index not in choice[code.path]:
                    choice[code.path].add(index)
                    pending |= code.statements[index].uses - seen
    return {path: sorted(numbers) for path, numbers in choice.items()}
