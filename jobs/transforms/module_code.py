"""The code of a module by its statements, with what each of them binds, uses and may do."""

from __future__ import annotations

import ast
import bisect
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jobs.transforms import libraries
from jobs.transforms.bindings import list_all_bound, list_values
from jobs.transforms.fingerprints import Compiled, Module
from jobs.transforms.inert import InertExpressions, list_defaults, list_hints

_OTHER_ERRORS = frozenset(
    {
        "ImportError", "ModuleNotFoundError", "KeyError", "IndexError", "LookupError", "AttributeError", "TypeError",
        "ValueError", "ZeroDivisionError", "ArithmeticError", "OverflowError", "NameError", "StopIteration", "AssertionError",
    }
)  # fmt: skip
"""Errors that do not say that a file is missing."""
_GOING_ON = frozenset(
    {"suppress", "__exit__", "__aexit__", "ExitStack", "AsyncExitStack", "exception", "gather", "Thread"}
)
"""Names with which code goes on after an error without an `except`."""
_QUERIES = frozenset({"sql", "query", "execute", "executemany", "query_df", "from_query"})
"""Methods of pandas, Polars and DuckDB whose texts can name variables of the code."""
_RELATING = frozenset(
    {"table", "view", "filter", "project", "select", "aggregate", "join", "order", "sort", "create", "create_view"}
)
"""Methods of DuckDB's connections and relations, and of many other values, whose texts can have queries in them."""
_FORMATS = frozenset({"format", "format_map"})
_READS = frozenset({"read", "read_text"})
"""Methods that return the text of a file, in which names are looked for when a job used it."""
_LOOK_UPS = frozenset({"getattr", "attrgetter", "methodcaller", "__getattribute__", "resolve_name"})
"""Functions that take the name of an attribute as their last argument that is a text."""
_ANNOTATIONS = frozenset({"__annotations__", "__annotate__", "__conditional_annotations__"})
"""Names in the bytecode of each annotated module or class."""
_NAMED: tuple[tuple[Any, str], ...] = (
    (ast.Attribute, "attr"),
    (ast.Name, "id"),
    (ast.alias, "name"),
    (ast.Constant, "value"),
)
"""Syntax that names something, and the field with the name."""
_OPENING = frozenset({"sqlite3", "ssl"})
"""Modules of Python that open files without a report."""


@dataclass(frozen=True)
class Statement:
    """One statement at module level."""

    node: ast.stmt
    code: Compiled
    bound: frozenset[str]
    """Names that it binds; empty where it may have another effect."""
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
        self._inert = InertExpressions(module)

    @cached_property
    def statements(self) -> list[Statement]:
        """All of them, in order."""
        pairs = zip(self.module.tree.body, self.module.compiled, strict=True)
        return [Statement(node, code, self._list_bound(node), self._is_catching(node, code)) for node, code in pairs]

    @cached_property
    def names(self) -> frozenset[str]:
        """Identifiers of the whole module; that of annotations only where it reads them."""
        names = frozenset().union(*(statement.code.names for statement in self.statements))
        if _ANNOTATIONS.isdisjoint(names | self.words):
            return names
        return names | {"__annotations__"} if self._is_reading_annotations else names - _ANNOTATIONS

    @cached_property
    def _is_reading_annotations(self) -> bool:
        named = (getattr(node, field) for kind, field in _NAMED for node in self.module.by_kind[kind])
        return not _ANNOTATIONS.isdisjoint(name for name in named if isinstance(name, str))

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
        return frozenset(index for index, statement in enumerate(self.statements) if self._is_reading(statement.node))

    def passes_module(self, loaded: Collection[str], parts: Collection[str]) -> bool:
        """Return whether it uses a module as a value, of which anything may then be used.

        Args:
            loaded: full names of all modules of the repository.
            parts: their beginnings and ends, as `list_parts` says.

        """
        imports = [*self.module.by_kind[ast.Import], *self.module.by_kind[ast.ImportFrom]]
        names: dict[str, str] = {}
        for node in imports:
            prefix = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                top = alias.name if prefix or alias.asname else alias.name.partition(".")[0]
                names[alias.asname or top] = f"{prefix}{top}".lstrip(".")
        followed_names = {name: full for name, full in names.items() if full in parts}
        return any(full in loaded for full in list_values(self.module.tree, followed_names))

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
        return frozenset(node.name for node in nodes if any(map(self._inert.is_declaring, node.decorator_list)))

    def _list_bound(self, node: ast.stmt) -> frozenset[str]:
        """Return the names that a statement binds where that is its only effect."""
        names: set[str] = set()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_plain = self._inert.are_inert(list_defaults(node)) and all(
                map(self._inert.is_hint, self._list_hints(node))
            )
            if is_plain and all(
                self._inert.is_declaring(part) or self._inert.is_wrapping(part) for part in node.decorator_list
            ):
                names = {node.name}
        elif isinstance(node, ast.Assign):
            if all(isinstance(target, ast.Name) for target in node.targets) and self._inert.is_inert(node.value):
                names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_plain = self._inert.is_hint(node.annotation) and self._inert.are_inert(filter(None, [node.value]))
            names = {node.target.id} if is_plain else set()
        # Python itself uses `__getattr__`, `__all__` and their like
        return frozenset() if any(name.startswith("__") for name in names) else frozenset(names)

    def _list_hints(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
        """Return the annotations that are evaluated."""
        return [] if self.module.has_future_annotations else list_hints(node)

    def _is_reading(self, node: ast.stmt) -> bool:
        """Return whether binding the names of a statement may call a method of a value of the repository."""
        parts: list[ast.expr] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = [*node.decorator_list, *list_defaults(node), *self._list_hints(node)]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            parts = [*filter(None, [node.value]), *([node.annotation] if isinstance(node, ast.AnnAssign) else [])]
        inner = [node for part in parts for node in ast.walk(part)]
        reads = [node for node in inner if isinstance(node, ast.Attribute | ast.Subscript)]
        if not all(self._inert.is_of_library(node.value) for node in reads):
            return True
        # collecting, printing or comparing values calls methods of theirs
        return any(self._inert.is_touching(node) for node in inner)

    def _is_catching(self, node: ast.stmt, code: Compiled) -> bool:
        if not code.is_handling:
            return bool(code.names & _GOING_ON)
        handlers = [inner for inner in ast.walk(node) if isinstance(inner, ast.ExceptHandler)]
        kinds = [handler.type for handler in handlers]
        caught = [part for kind in kinds for part in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
        others = [part for part in caught if isinstance(part, ast.Name) and part.id in _OTHER_ERRORS]
        is_ending = any(
            isinstance(inner, ast.Try) and any(isinstance(part, ast.Return) for part in inner.finalbody)
            for inner in ast.walk(node)
        )
        return len(others) < len(caught) or is_ending or bool(code.names & _GOING_ON)

    @cached_property
    def is_asking_by_parts(self) -> bool:
        """Return whether it may put a query together, in which a library then looks for names of the code."""
        if (_QUERIES | _RELATING).isdisjoint(self.names):
            return False
        called = {id(node.func): node for node in self.module.by_kind[ast.Call]}
        methods = [node for node in self.module.nodes if _name_of(node) in _QUERIES]
        calls = [called.get(id(node)) for node in methods]
        if not all(call is not None and all(map(self._is_written_out, call.args[:1])) for call in calls):
            return True
        related = [node for node in called.values() if _name_of(node.func) in _RELATING]
        return any(self._is_assembled(part) for node in related for part in node.args)

    @cached_property
    def is_looking_up_by_parts(self) -> bool:
        """Return whether it may look up an attribute whose name is put together while it runs."""
        if (_LOOK_UPS | _FORMATS).isdisjoint(self.names):
            return False
        calls = {id(node.func): node for node in self.module.by_kind[ast.Call]}
        looks = [calls.get(id(node)) for node in self.module.nodes if _name_of(node) in _LOOK_UPS]
        if not all(call is not None and any(map(self._is_text, call.args)) for call in looks):
            return True
        formats = [node for node in self.module.by_kind[ast.Attribute] if node.attr in _FORMATS]
        return not all(self._is_plain_format(node, calls.get(id(node))) for node in formats)

    def _is_plain_format(self, node: ast.Attribute, call: ast.Call | None) -> bool:
        """Return whether a text to fill in is written out, or nothing is filled in that has attributes of its own."""
        if self._is_written_out(node.value) or self._inert.is_of_library(node.value):
            return True
        values = [] if call is None else [*call.args, *(keyword.value for keyword in call.keywords)]
        return bool(values) and all(isinstance(value, ast.Constant) for value in values)

    def _is_written_out(self, node: ast.expr) -> bool:
        """Return whether a text is written in the module, or is that of a file."""
        if isinstance(node, ast.Name):
            return node.id in self._texts
        is_read = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READS
        return is_read or self._is_text(node)

    def _is_assembled(self, node: ast.expr) -> bool:
        """Return whether a text is put together."""
        if isinstance(node, ast.Name):
            return node.id in self._assembled
        return any(
            isinstance(part, ast.JoinedStr)
            or (isinstance(part, ast.BinOp) and any(map(self._is_text, (part.left, part.right))))
            or (
                isinstance(part, ast.Attribute)
                and part.attr in {*_FORMATS, "join", "replace"}
                and self._is_text(part.value)
            )
            for part in ast.walk(node)
        )

    @cached_property
    def _assembled(self) -> frozenset[str]:
        """Names that somewhere stand for a text that is put together."""
        nodes = [*self.module.by_kind[ast.Assign], *self.module.by_kind[ast.AugAssign]]
        statements = [node for node in nodes if not isinstance(node.value, ast.Name) and self._is_assembled(node.value)]
        targets = [t for node in statements for t in (node.targets if isinstance(node, ast.Assign) else [node.target])]
        return frozenset(target.id for target in targets if isinstance(target, ast.Name))

    @staticmethod
    def _is_text(node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and isinstance(node.value, str)

    @cached_property
    def _texts(self) -> frozenset[str]:
        """Names that only ever stand for a text that is written out."""
        nodes = self.module.by_kind[ast.Assign]
        plain = Counter(
            target.id
            for node in nodes
            if self._is_text(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        )
        bound = Counter(name for name, _ in list_all_bound(self.module.nodes))
        taken = {node.arg for node in self.module.by_kind[ast.arg]}
        return frozenset(name for name, count in plain.items() if bound[name] == count and name not in taken)

    @cached_property
    def imported(self) -> frozenset[str]:
        """Names of the libraries and packages that it imports anywhere."""
        names = {alias.name for node in self.module.by_kind[ast.Import] for alias in node.names}
        for node in self.module.by_kind[ast.ImportFrom]:
            if node.module and not node.level:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        return frozenset(name if name in libraries.PARTS else name.partition(".")[0] for name in names)

    @cached_property
    def libraries(self) -> frozenset[str]:
        """Names of what it imports and may open files without a report: neither this API nor most of Python."""
        # of some library
        more = {"import_module"} if "import_module" in self.names else set()
        return self.imported - (sys.stdlib_module_names - _OPENING) - {"transforms"} | more


def _name_of(node: ast.AST) -> str:
    """Return the last name of an expression, and that of an import."""
    if isinstance(node, ast.alias):
        return node.name if node.asname else ""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_handing_on(node: ast.stmt) -> bool:
    """Return whether a statement imports names, or lists those that `import *` takes."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
        return isinstance(node.value, ast.List | ast.Tuple)
    return isinstance(node, ast.ImportFrom)
