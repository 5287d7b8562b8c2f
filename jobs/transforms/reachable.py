"""Leaves out of a module what a transform certainly never runs: other transforms, and helpers that nothing names.

A statement at module level is left out only if running it has no effect but to bind names (a plain function, a transform's
declaration, a constant), and none of these names occurs in any code that is kept. Names are compared as text, wherever
they occur. Code that looks names up at run time (`globals`, `getattr`, …) keeps everything that it can reach.
"""

from __future__ import annotations

import ast
import bisect
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from jobs.transforms.fingerprints import Compiled, Module

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
        "co_lines", "co_positions", "lineno", "catch_warnings", "findCaller", "doctest", "help",
    }
)  # fmt: skip
"""Names with which code reads docstrings, comments or line numbers: then the text of each module counts."""
_WRAPPING = frozenset({"functools.cache", "functools.lru_cache", "contextlib.contextmanager"})
"""Decorators that do nothing but make another function of one."""
_DECLARING = frozenset({"transform", "incremental", "configure"})
WORDS = frozenset({"help", "lineno", "modules", "dir", "reload", "inspect"})
"""Names of these that are ordinary words in texts."""
UNFOLLOWED = frozenset({"PathFinder", "FileFinder", "get_file_info", "FileSelector", "LocalFileSystem"})
"""Names with which code looks for files without opening them, which nothing reports: then all files count."""
_OTHER_ERRORS = frozenset(
    {
        "ImportError", "ModuleNotFoundError", "KeyError", "IndexError", "LookupError", "AttributeError", "TypeError",
        "ValueError", "ZeroDivisionError", "ArithmeticError", "OverflowError", "NameError", "StopIteration", "AssertionError",
    }
)  # fmt: skip
"""Errors that do not say that a file is missing."""
ACTIVE = frozenset(
    {
        "__getattr__", "__getattribute__", "__get__", "property", "cached_property", "__getitem__", "__missing__",
        "__class_getitem__", "defaultdict",
    }
)  # fmt: skip
"""Names with which code acts where another piece reads an attribute or an item."""
_NAMING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
_LITERALS = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict)
_PURE_BUILTINS = frozenset(
    {"frozenset", "set", "dict", "list", "tuple", "sorted", "range", "len", "str", "int", "float"}
)
_PURE_CALLS = {
    "transforms": None,
    "datetime": {"date", "time", "timedelta", "timezone", "datetime"},
    "decimal": {"Decimal"},
    "pathlib": {"Path", "PurePath"},
    "re": {"compile"},
    "polars": {"col", "lit", "date", "datetime", "duration", "len", "element", "struct", "concat_str", "Schema", "all", "exclude"},
    "pyarrow": {
        "schema", "field", "struct", "list_", "large_list", "map_", "dictionary", "decimal128", "decimal256", "timestamp",
        "time32", "time64", "duration", "date32", "date64", "string", "large_string", "binary", "large_binary", "bool_",
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "null",
    },
}  # fmt: skip
"""Functions of libraries that only make a value."""
_LIBRARIES = frozenset({*sys.stdlib_module_names, *_PURE_CALLS, "duckdb", "numpy", "pandas", "pyspark"})
"""Libraries that do nothing where an attribute is read."""
_CHAINED = frozenset({"polars", "transforms"})
"""Libraries whose values' methods only make other values."""


@dataclass(frozen=True)
class Statement:
    """One statement at module level."""

    node: ast.stmt
    code: Compiled
    bound: frozenset[str]
    """Names that it binds; empty where it may have another effect."""
    is_reading: bool
    """Whether it reads an attribute or an item of a value of the repository."""
    is_catching: bool
    """Whether it goes on where a library did not find a file, of which nothing is reported."""

    @property
    def uses(self) -> frozenset[str]:
        """Identifiers and words in it."""
        return self.code.names | self.code.words


class ModuleCode:
    """A module by its statements at module level."""

    def __init__(self, module: Module) -> None:
        self.path = module.path
        self.module = module
        self._imported = _list_imported(module)

    @cached_property
    def statements(self) -> list[Statement]:
        """All of them, in order."""
        pairs = zip(self.module.tree.body, self.module.compiled, strict=True)
        return [
            Statement(node, code, self._list_bound(node), self._is_reading(node), self._is_catching(node, code))
            for node, code in pairs
        ]

    @cached_property
    def names(self) -> frozenset[str]:
        """Identifiers of the whole module."""
        return frozenset().union(*(statement.code.names for statement in self.statements))

    @cached_property
    def words(self) -> frozenset[str]:
        """Words of the texts of the whole module."""
        return frozenset().union(*(statement.code.words for statement in self.statements))

    @cached_property
    def base(self) -> frozenset[int]:
        """Indices of the statements that are always kept."""
        return frozenset(index for index, statement in enumerate(self.statements) if not statement.bound)

    def list_uses(self, indices: Iterable[int]) -> set[str]:
        """Return identifiers and words of some statements."""
        return set().union(*(self.statements[index].uses for index in indices))

    @cached_property
    def base_uses(self) -> frozenset[str]:
        """Identifiers and words of the statements that are always kept; names that these only hand on are not used."""
        used = (index for index in self.base if not _is_handing_on(self.statements[index].node))
        return frozenset(self.list_uses(used))

    @cached_property
    def reading(self) -> frozenset[int]:
        """Indices of the statements that are kept where reading a value may have an effect."""
        return frozenset(index for index, statement in enumerate(self.statements) if statement.is_reading)

    def passes_module(self, loaded: Collection[str], parts: Collection[str]) -> bool:
        """Return whether it uses a module as a value, of which anything may then be used.

        Args:
            loaded: full names of all modules of the repository.
            parts: their beginnings and ends, as `list_parts` says.

        """
        imports = [node for node in self.module.nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        names: dict[str, str] = {}
        for node in imports:
            prefix = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                top = alias.name if prefix or alias.asname else alias.name.partition(".")[0]
                names[alias.asname or top] = f"{prefix}{top}".lstrip(".")
        followed_names = {name: full for name, full in names.items() if full in parts}
        return any(full in loaded for full in _list_values(self.module.tree, followed_names))

    @cached_property
    def renamed(self) -> dict[str, str]:
        """Name that an import binds → the name that it has in the other module."""
        nodes = [node for node in self.module.tree.body if isinstance(node, ast.ImportFrom)]
        return {alias.asname: alias.name for node in nodes for alias in node.names if alias.asname}

    def find_statement(self, line: int) -> int | None:
        """Return the index of the statement at a line."""
        index = bisect.bisect_right(self._begins, line) - 1
        end = self.statements[index].node.end_lineno if index >= 0 else None
        return index if end is not None and line <= end else None

    @cached_property
    def _begins(self) -> list[int]:
        """Lines at which the statements begin, with their decorators."""
        return [
            min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
            for node in self.module.tree.body
        ]

    @cached_property
    def optional(self) -> dict[str, list[int]]:
        """Name → indices of the statements that are kept only where it is used."""
        indices: dict[str, list[int]] = {}
        for index, statement in enumerate(self.statements):
            for name in statement.bound:
                indices.setdefault(name, []).append(index)
        return indices

    @cached_property
    def transforms(self) -> frozenset[str]:
        """Names of the declared transforms that are kept only where they are used."""
        nodes = [statement.node for statement in self.statements if isinstance(statement.node, ast.FunctionDef)]
        return frozenset(node.name for node in nodes if any(map(self._is_declaring, node.decorator_list)))

    def _list_bound(self, node: ast.stmt) -> frozenset[str]:
        """Return the names that a statement binds where that is its only effect."""
        names: set[str] = set()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_plain = self._are_inert(_list_defaults(node)) and all(map(self._is_hint, self._list_hints(node)))
            if is_plain and all(self._is_declaring(part) or self._is_wrapping(part) for part in node.decorator_list):
                names = {node.name}
        elif isinstance(node, ast.Assign):
            if all(isinstance(target, ast.Name) for target in node.targets) and self._is_inert(node.value):
                names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_plain = self._is_hint(node.annotation) and self._are_inert(filter(None, [node.value]))
            names = {node.target.id} if is_plain else set()
        # Python itself uses `__getattr__`, `__all__` and their like
        return frozenset() if any(name.startswith("__") for name in names) else frozenset(names)

    def _list_hints(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
        """Return the annotations that are evaluated."""
        return [] if self.module.has_future_annotations else _list_hints(node)

    def _is_reading(self, node: ast.stmt) -> bool:
        """Return whether binding the names of a statement reads an attribute or an item of the repository."""
        parts: list[ast.expr] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = [*node.decorator_list, *_list_defaults(node), *self._list_hints(node)]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            parts = [*filter(None, [node.value]), *([node.annotation] if isinstance(node, ast.AnnAssign) else [])]
        reads = [
            inner for part in parts for inner in ast.walk(part) if isinstance(inner, ast.Attribute | ast.Subscript)
        ]
        return not all(self._is_of_library(inner.value) for inner in reads)

    def _is_of_library(self, node: ast.expr) -> bool:
        """Return whether an expression is a builtin type, or comes from a library that does nothing where it is read."""
        while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
            node = node.func if isinstance(node, ast.Call) else node.value
        if not isinstance(node, ast.Name):
            return False
        library = self._imported.get(node.id, "").partition(".")[0]
        return library in _LIBRARIES or (node.id in _PURE_BUILTINS and self._is_builtin(node.id))

    def _is_catching(self, node: ast.stmt, code: Compiled) -> bool:
        handlers = [inner for inner in ast.walk(node) if isinstance(inner, ast.ExceptHandler)]
        kinds = [handler.type for handler in handlers]
        caught = [part for kind in kinds for part in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
        others = [part for part in caught if isinstance(part, ast.Name) and part.id in _OTHER_ERRORS]
        return len(others) < len(caught) or "suppress" in code.names

    @cached_property
    def libraries(self) -> frozenset[str]:
        """Names of what it imports, at whatever place, other than from Python itself and this API."""
        nodes = self.module.nodes
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
        return frozenset(name.partition(".")[0] for name in names) - sys.stdlib_module_names - {"transforms"}

    def _is_builtin(self, name: str) -> bool:
        """Return whether a name stands for what Python itself means by it."""
        return name not in self._bound and "*" not in self._bound

    def _is_hint(self, node: ast.expr) -> bool:
        """Return whether an annotation is a type, such as `list[int | None]`."""
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.BitOr) and self._is_hint(node.left) and self._is_hint(node.right)
        if isinstance(node, ast.Subscript):
            return self._is_hint(node.value) and self._is_hint(node.slice)
        if isinstance(node, ast.Tuple | ast.List):
            return all(map(self._is_hint, node.elts))
        return self._is_inert(node)

    def _is_wrapping(self, node: ast.expr) -> bool:
        """Return whether a decorator does nothing but make another function."""
        is_call = isinstance(node, ast.Call)
        function = node.func if isinstance(node, ast.Call) else node
        return self._find_library(function) in _WRAPPING and (not is_call or self._is_inert_call(node))

    def _is_declaring(self, node: ast.expr) -> bool:
        """Return whether a decorator declares a transform, and does nothing else."""
        if not isinstance(node, ast.Call):
            return False
        root = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        is_ours = isinstance(root, ast.Name) and self._imported.get(root.id, "").partition(".")[0] == "transforms"
        name = self._imported.get(root.id, "").rpartition(".")[2] if isinstance(root, ast.Name) else ""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        return is_ours and (name in _DECLARING or isinstance(node.func, ast.Attribute)) and self._are_inert(arguments)

    def _are_inert(self, nodes: Iterable[ast.expr]) -> bool:
        return all(map(self._is_inert, nodes))

    def _is_inert(self, node: ast.expr) -> bool:
        """Return whether evaluating an expression only makes a value."""
        if isinstance(node, ast.Constant | ast.Name):
            return True
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return self._are_inert(node.elts)
        if isinstance(node, ast.Dict):
            return None not in node.keys and self._are_inert([*filter(None, node.keys), *node.values])
        if isinstance(node, ast.Lambda):
            return self._are_inert(_list_defaults(node))
        if isinstance(node, ast.JoinedStr):
            values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
            return all(isinstance(value, ast.Name) and self._is_kept_whole(value) for value in values)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.operand, ast.Constant)
        if isinstance(node, ast.BinOp):
            return _is_number(node)
        if isinstance(node, ast.Subscript):  # an annotation such as list[str]
            return self._is_inert(node.value) and self._is_inert(node.slice)
        if isinstance(node, ast.Starred):
            return self._is_kept_whole(node.value)
        if isinstance(node, ast.Attribute):
            return self._find_library(node) is not None
        return isinstance(node, ast.Call) and self._is_pure_call(node)

    def _is_inert_call(self, node: ast.expr) -> bool:
        """Return whether the arguments of a call only make values."""
        return isinstance(node, ast.Call) and self._are_inert([*node.args, *(part.value for part in node.keywords)])

    def _is_pure_call(self, node: ast.Call) -> bool:
        if not self._is_inert_call(node):
            return False
        if isinstance(node.func, ast.Name) and node.func.id not in self._imported:
            is_builtin = node.func.id in _PURE_BUILTINS and self._is_builtin(node.func.id)
            return is_builtin and all(map(self._is_kept_whole, node.args))
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            is_chained = self._find_call(node.func.value) in _CHAINED and node.func.attr != "pipe"
            return is_chained and self._is_pure_call(node.func.value)
        library = self._find_call(node)
        return library == "transforms" or (library is not None and all(map(self._is_kept_whole, node.args)))

    def _is_kept_whole(self, node: ast.expr) -> bool:
        """Return whether reading all of a value leaves it as it is, unlike an iterator."""
        return node.id in self._literals if isinstance(node, ast.Name) else self._is_inert(node)

    @cached_property
    def _literals(self) -> frozenset[str]:
        """Names that always stand for a value written out in this module."""
        nodes = [node for node in self.module.tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
        literal = [node for node in nodes if isinstance(node.value, _LITERALS)]
        targets = [t for node in literal for t in (node.targets if isinstance(node, ast.Assign) else [node.target])]
        return frozenset(t.id for t in targets if isinstance(t, ast.Name) and self._bound[t.id] == 1)

    def _find_call(self, node: ast.Call) -> str | None:
        """Return the library of a call that only makes a value."""
        func = node.func
        while isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call):
            func = func.value.func
        full = self._find_library(func)
        if full is None:
            return None
        library, _, name = full.partition(".")
        allowed = _PURE_CALLS.get(library, set())
        return library if allowed is None or name.rpartition(".")[2] in allowed else None

    def _find_library(self, node: ast.expr) -> str | None:
        """Return the full name of what an expression names in an imported library."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._imported:
            return None
        return ".".join((self._imported[node.id], *reversed(parts)))

    @cached_property
    def _bound(self) -> Counter[str]:
        """Names that the module gives a meaning, with how often it does; `*` for names that are not known."""
        return Counter(name for name, _ in _list_all_bound(self.module.nodes))


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


def _list_imported(module: Module) -> dict[str, str]:
    """Return name → the full name of what an import at module level binds to it; nothing where something else may, too."""
    names: dict[str, str] = {}
    for node in module.tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            if (node.module or "").partition(".")[0] != "transforms":
                names.clear()
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    meanings: dict[str, set[str]] = {}
    for name, meaning in _list_all_bound(module.nodes):
        meanings.setdefault(name, set()).add(meaning)
    return {name: full for name, full in names.items() if meanings[name] == {full}}


def _list_all_bound(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield each name that code of a module gives a meaning, wherever it does; with the full name of what is imported."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield from () if isinstance(node.ctx, ast.Load) else ((node.id, ""),)
        elif isinstance(node, ast.Import):
            tops = [(alias.asname, alias.name, alias.name.partition(".")[0]) for alias in node.names]
            yield from ((short or top, full if short else top) for short, full, top in tops)
        elif isinstance(node, ast.ImportFrom):
            if node.names[0].name != "*" or (node.module or "").partition(".")[0] != "transforms":
                yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, _NAMING):
            yield node.name or "", ""
        elif isinstance(node, ast.MatchMapping):
            yield node.rest or "", ""


def list_parts(modules: Iterable[str]) -> frozenset[str]:
    """Return the names of modules, of the packages around them and, as after `from .`, the ends of these names."""
    parts: set[str] = set()
    for module in modules:
        words = module.split(".")
        parts.update(".".join(words[:end]) for end in range(1, len(words) + 1))
        parts.update(".".join(words[begin:]) for begin in range(1, len(words)))
    return frozenset(parts)


def _list_values(tree: ast.AST, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the full names of what is used other than by its attributes.

    Args:
        tree: code.
        names: name → its full name, of the names to follow.

    """
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        parts: list[str] = []
        whole = node
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in names:
            yield ".".join((names[node.id], *reversed(parts)))
        elif node is whole:
            pending += ast.iter_child_nodes(node)
        else:
            pending.append(node)


def _is_handing_on(node: ast.stmt) -> bool:
    """Return whether a statement imports names, or lists those that `import *` takes."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
        return isinstance(node.value, ast.List | ast.Tuple)
    return isinstance(node, ast.ImportFrom)


def _list_defaults(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.expr]:
    return [*node.args.defaults, *(value for value in node.args.kw_defaults if value is not None)]


def _list_hints(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    hints = [argument.annotation for argument in arguments if argument is not None]
    return [hint for hint in (*hints, node.returns) if hint is not None]


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right) and not isinstance(node.op, ast.Pow)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
