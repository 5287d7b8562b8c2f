"""Fingerprints of what the code of a repository uses: equal ones mean that nothing that counts has changed.

Keys are those of `jobs.transforms.trace`.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import hashlib
import os
import re
import stat
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import Any

FORMAT = "2"
"""Part of each digest; another one makes every dataset out of date."""
HEX_LENGTH = 32
_DOCUMENTED = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PLAIN = frozenset({*sys.stdlib_module_names, "transforms"} - {"unittest", "doctest"})
"""Libraries whose decorators and base classes read no docstrings."""
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_WORD = re.compile(r"\w+")
MAX_WORDS_BYTES = 1_000_000
"""Largest text file in which names of code are looked for."""


@dataclass
class Module:
    """One module of the repository, parsed, without docstrings."""

    path: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of its syntax, but for whether a name is read or written."""
        return list_nodes(self.tree)

    @cached_property
    def by_kind(self) -> dict[type[ast.AST], list[Any]]:
        """Its syntax by kind."""
        nodes: dict[type[ast.AST], list[Any]] = defaultdict(list)
        for node in self.nodes:
            nodes[type(node)].append(node)
        return nodes

    @cached_property
    def fingerprint(self) -> str:
        """Of all its code."""
        return _hash(" ".join(code.fingerprint for code in self.compiled))

    @cached_property
    def compiled(self) -> list[Compiled]:
        """Its statements at module level, each compiled."""
        return [compile_statement(node, is_future=self.has_future_annotations) for node in self.tree.body]

    @cached_property
    def has_future_annotations(self) -> bool:
        """Whether its annotations are kept as text."""
        return any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(a.name == "annotations" for a in node.names)
            for node in self.tree.body
        )


def list_nodes(tree: ast.AST) -> list[ast.AST]:
    """Return a piece of syntax and all parts of it; much faster than `ast.walk`, whose order it has."""
    nodes = [tree]
    for node in nodes:  # which grows meanwhile
        for value in vars(node).values():
            if type(value) is list:
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                nodes.append(value)
    return nodes


@dataclass
class Files:
    """The files of one repository; reads and parses each once."""

    root: Path
    _modules: dict[str, Module | None] = field(default_factory=dict)
    _fingerprints: dict[str, str] = field(default_factory=dict)

    def find_module(self, path: str) -> Module | None:
        """Return a module by its path, None where it cannot be parsed or is not there."""
        if path not in self._modules:
            self._modules[path] = self._parse(path)
        return self._modules[path]

    def fingerprint(self, key: str) -> str:
        """Return the fingerprint of a key; empty for what is not there."""
        if key not in self._fingerprints:
            self._fingerprints[key] = self._compute(key)
        return self._fingerprints[key]

    def fingerprint_modules(self) -> dict[str, str]:
        """Return path → fingerprint of every module, imported or not."""
        return {path: self.fingerprint(f"code:{path}") for path in self.list_paths() if path.endswith(".py")}

    def list_paths(self) -> list[str]:
        """Return the paths of all files."""
        paths = []
        for folder, _, files in os.walk(self.root):
            inside = os.path.relpath(folder, self.root)
            paths += [os.path.normpath(os.path.join(inside, name)) for name in files]
        return sorted(paths)

    def _compute(self, key: str) -> str:
        kind, _, path = key.partition(":")
        place = self.root / path
        if kind == "code":
            module = self.find_module(path)
            return module.fingerprint if module is not None else self.fingerprint(f"file:{path}")
        if kind == "file":
            return _hash_file(place)
        if kind in ("stat", "seek"):
            return "f" if place.is_file() else "d" if place.is_dir() else ""
        if kind in ("list", "data"):
            return _hash_names(place, modules=kind == "list")
        if kind == "paths":
            return _hash("\n".join(path for path in self.list_paths() if not path.endswith(".py")))
        keys = [f"{'code' if path.endswith('.py') else 'file'}:{path}" for path in self.list_paths()]
        return _hash(repr([(key, self.fingerprint(key)) for key in keys]))

    def _parse(self, path: str) -> Module | None:
        try:
            tree = ast.parse((self.root / path).read_bytes(), path)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        _drop_docstrings(tree)
        return Module(path, tree)


@dataclass(frozen=True)
class Compiled:
    """What a piece of code does, and what it names."""

    fingerprint: str
    """Neither layout, comments nor line numbers count."""
    names: frozenset[str]
    """Its identifiers."""
    words: frozenset[str]
    """Those of its texts."""
    is_handling: bool = False
    """Whether it may go on after an error."""


def compile_statement(node: ast.stmt, *, is_future: bool) -> Compiled:
    """Compile a statement at module level; code objects are walked much faster than syntax."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return Compiled(_hash(ast.dump(node)), frozenset(alias.name for alias in node.names), frozenset())
    flags = __future__.annotations.compiler_flag if is_future else 0
    digest = hashlib.sha256()
    names: set[str] = set()
    words: set[str] = set()
    is_handling = has_sets = False
    pending = [compile(ast.Module([node], []), "", "exec", flags=flags, dont_inherit=True)]
    while pending:
        code = pending.pop()
        names.update(code.co_names, code.co_freevars)
        is_handling |= bool(code.co_exceptiontable)
        for text in _list_parts(code):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        for value in code.co_consts:
            if isinstance(value, CodeType):
                pending.append(value)
            else:
                words.update(_list_words(value))
                has_sets |= isinstance(value, frozenset)
    if has_sets:
        # the order of a set depends on that in which its members are added, where their hashes collide
        sets = [ast.dump(part) for part in list_nodes(node) if isinstance(part, ast.Set)]
        digest.update(repr(sets).encode("utf-8", "surrogatepass"))
    return Compiled(digest.hexdigest()[:HEX_LENGTH], frozenset(names), frozenset(words), is_handling)


def _list_parts(code: CodeType) -> Iterator[str]:
    """Yield what makes up a compiled piece of code, but for where it stood."""
    yield repr((code.co_name, code.co_qualname, code.co_flags, code.co_argcount, code.co_posonlyargcount))
    yield repr((code.co_kwonlyargcount, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    yield code.co_code.hex()
    yield code.co_exceptiontable.hex()
    yield from (_write_constant(value) for value in code.co_consts)


def _write_constant(value: object) -> str:
    if isinstance(value, CodeType):
        return value.co_qualname
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(_write_constant, value))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_write_constant, value))},)"
    return f"{type(value).__name__} {value!r}"


def read_words(path: Path) -> frozenset[str] | None:
    """Return the words of a text file; None of a binary one, or of one that is too large to look through."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_WORDS_BYTES + 1)
    except OSError:
        return frozenset()
    if len(data) > MAX_WORDS_BYTES:
        return None
    try:
        return frozenset(_WORD.findall(data.decode()))
    except UnicodeDecodeError:
        return None


def _list_words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from _WORD.findall(value)
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from _list_words(item)


def _drop_docstrings(tree: ast.Module) -> None:
    """Remove docstrings that no library sees; Pydantic and Click make them part of what they write."""
    plain = _list_plain(tree)
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, _DOCUMENTED) and all(_find_root(seer) in plain for seer in _list_seers(node)):
            body = [child for child in node.body if not _is_text(child)]
            node.body = body or ([] if isinstance(node, ast.Module) else [ast.copy_location(ast.Pass(), node)])
        for name in _BLOCKS:
            pending += getattr(node, name, ())


def _list_plain(tree: ast.Module) -> frozenset[str]:
    """Return names of what reads no docstrings: builtins, the standard library, declarations, and such classes."""
    plain = {*dir(builtins)}
    for node in tree.body:
        if isinstance(node, ast.Import):
            plain |= {alias.asname or top for alias in node.names if (top := alias.name.partition(".")[0]) in _PLAIN}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _PLAIN and not node.level:
            plain |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef) and all(_find_root(seer) in plain for seer in _list_seers(node)):
            plain.add(node.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            plain.discard(node.name)
    return frozenset(plain)


def _list_seers(node: ast.AST) -> list[ast.expr]:
    """Return the decorators, base classes and options of a function or class: code that may read its docstring."""
    keywords: list[ast.keyword] = getattr(node, "keywords", [])
    return [
        *getattr(node, "decorator_list", ()),
        *getattr(node, "bases", ()),
        *(keyword.value for keyword in keywords if not isinstance(keyword.value, ast.Constant)),
    ]


def _find_root(node: ast.expr) -> str:
    """Return the first name of an expression such as `a.b(c)[d]`."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HEX_LENGTH]


def _hash_file(path: Path) -> str:
    """Return the fingerprint of a file's bytes, and of whether it is a program."""
    try:
        with path.open("rb") as file:
            is_program = os.fstat(file.fileno()).st_mode & stat.S_IXUSR
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:HEX_LENGTH]
    except OSError:
        return ""
    return f"{digest} x" if is_program else digest


def _hash_names(folder: Path, *, modules: bool) -> str:
    """Return the fingerprint of the names in a folder, and of which are folders themselves."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
    except OSError:
        return ""
    return _hash("\n".join(name for name in names if modules or not name.endswith(".py")))
