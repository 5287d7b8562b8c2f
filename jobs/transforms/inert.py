"""Expressions of a module that only make a value: evaluating them has no other effect."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from jobs.transforms.bindings import list_all_bound, list_imported
from jobs.transforms.fingerprints import Module

_WRAPPING = frozenset({"functools.cache", "functools.lru_cache", "contextlib.contextmanager"})
"""Decorators that do nothing but make another function of one."""
_DECLARING = frozenset({"transform", "incremental", "configure"})
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


class InertExpressions:
    """Tells which expressions of a module are inert, by what its names stand for."""

    def __init__(self, module: Module) -> None:
        self._module = module
        bound = list(list_all_bound(module.nodes))
        self._imported = list_imported(module, bound)
        self._bound = Counter(name for name, _ in bound)
        """Names that the module gives a meaning, with how often it does; `*` for names that are not known."""

    def is_of_library(self, node: ast.expr) -> bool:
        """Return whether an expression is a builtin type, or comes from a library that does nothing where it is read."""
        while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
            node = node.func if isinstance(node, ast.Call) else node.value
        if not isinstance(node, ast.Name):
            return False
        library = self._imported.get(node.id, "").partition(".")[0]
        return library in _LIBRARIES or (node.id in _PURE_BUILTINS and self._is_builtin(node.id))

    def is_touching(self, node: ast.AST) -> bool:
        """Return whether evaluating an expression may call methods of values of the repository that are in it."""
        if isinstance(node, ast.BinOp | ast.Call | ast.Dict | ast.JoinedStr | ast.Set | ast.Starred):
            names = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]
            return not all(inner.id in self._constants or self.is_of_library(inner) for inner in names)
        return False

    @cached_property
    def _constants(self) -> frozenset[str]:
        """Names that always stand for a value without any other name in it."""
        nodes = [node for node in self._module.tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value]
        plain = [
            node
            for node in nodes
            if not any(isinstance(inner, ast.Name | ast.Call) for inner in ast.walk(node.value or node))
        ]
        targets = [t for node in plain for t in (node.targets if isinstance(node, ast.Assign) else [node.target])]
        return frozenset(t.id for t in targets if isinstance(t, ast.Name) and self._bound[t.id] == 1)

    def _is_builtin(self, name: str) -> bool:
        """Return whether a name stands for what Python itself means by it."""
        return name not in self._bound and "*" not in self._bound

    def is_hint(self, node: ast.expr) -> bool:
        """Return whether an annotation is a type, such as `list[int | None]`."""
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.BitOr) and self.is_hint(node.left) and self.is_hint(node.right)
        if isinstance(node, ast.Subscript):
            return self.is_hint(node.value) and self.is_hint(node.slice)
        if isinstance(node, ast.Tuple | ast.List):
            return all(map(self.is_hint, node.elts))
        return self.is_inert(node)

    def is_wrapping(self, node: ast.expr) -> bool:
        """Return whether a decorator does nothing but make another function."""
        is_call = isinstance(node, ast.Call)
        function = node.func if isinstance(node, ast.Call) else node
        return self._find_library(function) in _WRAPPING and (not is_call or self._is_inert_call(node))

    def is_declaring(self, node: ast.expr) -> bool:
        """Return whether a decorator declares a transform, and does nothing else."""
        if not isinstance(node, ast.Call):
            return False
        root = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        is_ours = isinstance(root, ast.Name) and self._imported.get(root.id, "").partition(".")[0] == "transforms"
        name = self._imported.get(root.id, "").rpartition(".")[2] if isinstance(root, ast.Name) else ""
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        return is_ours and (name in _DECLARING or isinstance(node.func, ast.Attribute)) and self.are_inert(arguments)

    def are_inert(self, nodes: Iterable[ast.expr]) -> bool:
        """Return whether evaluating each of some expressions only makes a value."""
        return all(map(self.is_inert, nodes))

    def is_inert(self, node: ast.expr) -> bool:
        """Return whether evaluating an expression only makes a value."""
        if isinstance(node, ast.Constant | ast.Name):
            return True
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return self.are_inert(node.elts)
        if isinstance(node, ast.Dict):
            return None not in node.keys and self.are_inert([*filter(None, node.keys), *node.values])
        if isinstance(node, ast.Lambda):
            return self.are_inert(list_defaults(node))
        if isinstance(node, ast.JoinedStr):
            values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
            return all(isinstance(value, ast.Name) and self._is_kept_whole(value) for value in values)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.operand, ast.Constant)
        if isinstance(node, ast.BinOp):
            return _is_number(node)
        if isinstance(node, ast.Subscript):  # an annotation such as list[str]
            return self.is_inert(node.value) and self.is_inert(node.slice)
        if isinstance(node, ast.Starred):
            return self._is_kept_whole(node.value)
        if isinstance(node, ast.Attribute):
            return self._find_library(node) is not None
        return isinstance(node, ast.Call) and self._is_pure_call(node)

    def _is_inert_call(self, node: ast.expr) -> bool:
        """Return whether the arguments of a call only make values."""
        return isinstance(node, ast.Call) and self.are_inert([*node.args, *(part.value for part in node.keywords)])

    def _is_pure_call(self, node: ast.Call) -> bool:
        if not self._is_inert_call(node):
            return False
        is_kept = all(map(self._is_kept_whole, [*node.args, *(part.value for part in node.keywords)]))
        if isinstance(node.func, ast.Name) and node.func.id not in self._imported:
            is_builtin = node.func.id in _PURE_BUILTINS and self._is_builtin(node.func.id)
            is_calling = any(part.arg == "key" for part in node.keywords)
            return is_builtin and is_kept and not is_calling
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            is_chained = self._find_call(node.func.value) in _CHAINED and node.func.attr != "pipe"
            return is_chained and is_kept and self._is_pure_call(node.func.value)
        library = self._find_call(node)
        return library == "transforms" or (library is not None and is_kept)

    def _is_kept_whole(self, node: ast.expr) -> bool:
        """Return whether reading all of a value leaves it as it is, unlike an iterator."""
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return all(map(self._is_kept_whole, node.elts))
        return node.id in self._literals if isinstance(node, ast.Name) else self.is_inert(node)

    @cached_property
    def _literals(self) -> frozenset[str]:
        """Names that always stand for a value written out in this module."""
        nodes = [node for node in self._module.tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
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


def list_defaults(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.expr]:
    """Return the expressions for the defaults of a function's parameters."""
    return [*node.args.defaults, *(value for value in node.args.kw_defaults if value is not None)]


def list_hints(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    """Return the annotations of a function."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    hints = [argument.annotation for argument in arguments if argument is not None]
    return [hint for hint in (*hints, node.returns) if hint is not None]


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right) and not isinstance(node.op, ast.Pow)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
