"""Which columns of its inputs a transform's code asks for, and which words it has: from its syntax alone.

What it asks for is certain: names written out where an input is read (`flights.polars(columns=["day", "carrier"])`).
Where it takes more than that, a word of its code may name a column: a part of a text, an attribute that is not called,
or a keyword, wherever the digest of the transform leads. Names that are put together when it runs are in neither.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from jobs.transforms.digest import Covered
from jobs.transforms.fingerprints import list_nodes

READERS = frozenset({"arrow", "batches", "polars", "pandas", "dataframe"})
"""Methods of an input that take the columns first, or as `columns`."""
FACTS = frozenset({"path", "branch", "transaction"})
"""Attributes of an input that read nothing."""
MOST_WORDS = 1000
"""Of one transform; more than these are data rather than names."""
MOST_SIGNS = 100
_WORD = re.compile(r"\w+")
_PATH = re.compile(r"(/[A-Za-z0-9_-]+){2,}")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Asked(NamedTuple):
    """What the code of a transform asks an input for."""

    columns: tuple[str, ...] = ()
    """By their names."""
    is_listed: bool = False
    """Whether that is all that it takes of the input."""


def find_asked(function: Function | None, name: str) -> Asked:
    """Return the columns that a transform's function asks for where it reads one of its inputs.

    Args:
        function: the syntax of it; None where that is not to be had.
        name: its parameter for the input.

    """
    if function is None or not _is_plain_parameter(function, name):
        return Asked()
    reads = [_read_use(*use) for use in _list_uses(function, name)]
    columns = dict.fromkeys(column for read in reads for column in read.columns)
    return Asked(tuple(columns), is_listed=bool(columns) and all(read.is_listed for read in reads))


def _is_plain_parameter(function: Function, name: str) -> bool:
    """Return whether a name stands for that parameter throughout: nothing inside binds it anew."""
    own = function.args
    if name not in {argument.arg for argument in (*own.posonlyargs, *own.args, *own.kwonlyargs)}:
        return False
    inner = [node for statement in function.body for node in list_nodes(statement)]
    return not any(name in _list_bound(node) for node in inner)


def _list_bound(node: ast.AST) -> set[str]:
    if isinstance(node, ast.arg):
        return {node.arg}
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.MatchAs | ast.MatchStar):
        return {node.name or ""}
    if isinstance(node, ast.ExceptHandler):
        return {node.name or ""}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {node.rest or ""} if isinstance(node, ast.MatchMapping) else set()


def _list_uses(function: Function, name: str) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """Yield what stands around each use of a name: what it is a part of, and what that is a part of."""
    nodes = [node for statement in function.body for node in list_nodes(statement)]
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    parents = {child: node for node in [function, *nodes] for child in ast.iter_child_nodes(node)} if uses else {}
    for node in uses:
        yield parents[node], parents.get(parents[node])


def _read_use(access: ast.AST, call: ast.AST | None) -> Asked:
    """Return what one use of an input asks for."""
    if not isinstance(access, ast.Attribute):
        return Asked()
    if access.attr in FACTS:
        return Asked(is_listed=True)
    if access.attr not in READERS or not isinstance(call, ast.Call) or call.func is not access:
        return Asked()
    arguments: dict[str | None, ast.expr] = {keyword.arg: keyword.value for keyword in call.keywords}
    arguments.update(zip(("columns", "filter"), call.args, strict=False))
    names = arguments.get("columns")
    if not isinstance(names, ast.List | ast.Tuple):
        return Asked()
    texts = [item.value for item in names.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    # a filter names columns, too: which ones is for the words to say
    is_listed = len(texts) == len(names.elts) and "filter" not in arguments and None not in arguments
    return Asked(tuple(texts), is_listed)


def list_words(covered: Covered) -> tuple[str, ...] | None:
    """Return the words of a transform's code that may name columns, in small letters; None where they are too many."""
    if covered.function is None:
        return None
    reader = _WordCollector()
    for node in covered.syntax:
        reader.visit(node)
    for text in covered.held:
        reader.add(text)
    return tuple(sorted(reader.words)) if len(reader.words) <= MOST_WORDS else None


class _WordCollector(ast.NodeVisitor):
    """Collects the words of code: of its texts, of attributes that are not called, of keywords."""

    def __init__(self) -> None:
        self.words: set[str] = set()

    def add(self, text: str) -> None:
        """Add the words of a text."""
        if not _PATH.fullmatch(text):
            self.words.update(word.lower() for word in _WORD.findall(text) if len(word) <= MOST_SIGNS)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.add(node.value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.add(node.attr)
        self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        self.add(node.arg or "")
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        # what is called is a method: `frame.count()` names no column
        self.visit(node.func.value if isinstance(node.func, ast.Attribute) else node.func)
        for argument in (*node.args, *node.keywords):
            self.visit(argument)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring is for people
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def _visit_function(self, node: Function) -> None:
        # what is declared of a transform, such as the checks of its outputs, reads no input
        decorators = [decorator for decorator in node.decorator_list if not _is_declaration(decorator)]
        parts: list[Any] = [*decorators, node.args, *node.body]
        for part in parts:
            self.visit(part)


def _is_declaration(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "using"
