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
        "pydoc", "reload", "modules", "getrefcount", "getweakrefcount", "get_type_hints", "get_annotations", "ForwardRef", "__annotations__",
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
        "faulthandler", "doctest", "help", "traceback", "format_exc", "print_exc", "exc_info", "excepthook", "stack_info",
        "formatwarning", "warn_explicit", "settrace", "setprofile", "monitoring", "_current_frames", "tracemalloc", "__code__",
        "f_code", "gi_code", "cr_code", "ag_code", "tb_frame", "gi_frame", "cr_frame", "ag_frame", "__traceback__",
        "addHandler", "addFilter", "basicConfig", "dictConfig", "fileConfig", "StreamHandler", "FileHandler", "Formatter",
        "LogRecord", "setLogRecordFactory", "setLoggerClass", "makeRecord",
    }
)  # fmt: skip
"""Names with which code reads docstrings, comments or line numbers: then the text of each module counts."""
WORDS = frozenset({"help", "lineno", "modules", "dir", "reload", "inspect", "traceback", "monitoring"})
"""Names of these that are ordinary words in texts."""
TEXT_WORDS = frozenset({name for name in TEXT | REFLECTION if "_" in name} | {"lineno"})
"""Names of these that code reads by a word of a text, such as `{0.__doc__}` or `%(lineno)d`."""
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
        "__class_getitem__", "defaultdict", "__hash__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__repr__",
        "__str__", "__format__", "__bytes__", "__fspath__", "__bool__", "__len__", "__length_hint__", "__iter__", "__next__",
        "__reversed__", "__contains__", "__int__", "__float__", "__complex__", "__index__", "__trunc__", "__or__", "__ror__",
        "__invert__", "__neg__", "__pos__", "__abs__", "__del__", "__array__", "__arrow_c_array__", "__arrow_c_stream__",
        "__dataframe__", "__arrow_array__", "setattr", "__setattr__", "__",
    }
)  # fmt: skip
"""Names with which code acts where another piece reads an attribute or an item, or compares, prints or collects values."""


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
    is_active = not all(ACTIVE.isdisjoint(code.names) and ACTIVE.isdisjoint(code.words) for code in modules)
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
