"""The digest of a transform: it moves when what the transform computes may have changed, and else stays.

It covers the syntax tree of the function (so neither comments, layout nor docstrings), of every definition at module
level that it reaches by name, in its own module and in other modules of the repository, plain statements at the level
of those modules, the values its closure holds, and the declaration itself. A function next to it that it does not use
changes nothing. Where names cannot be followed (a star import, a module used as a value) the whole module counts.
"""

from __future__ import annotations

import ast
import hashlib
import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from jobs.transforms.declare import Transform

FORMAT = "1"
_BLOCKS = (ast.AugAssign, ast.If, ast.For, ast.While, ast.With, ast.Try)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass
class Module:
    """One module of the repository, parsed, with what each of its names is bound by."""

    name: str
    path: Path
    tree: ast.Module
    is_package: bool

    @cached_property
    def bindings(self) -> dict[str, list[ast.stmt]]:
        """Every name at module level, with all statements that bind it."""
        bindings: dict[str, list[ast.stmt]] = {}
        for statement in self.tree.body:
            for name in _bound_names(statement):
                bindings.setdefault(name, []).append(statement)
        return bindings

    @cached_property
    def effects(self) -> list[ast.stmt]:
        """Statements that may change anything: calls, assignments into objects, star imports, loops and conditions."""
        return [
            statement
            for statement in self.tree.body
            if not _is_text(statement) and (isinstance(statement, _BLOCKS) or not set(_bound_names(statement)))
        ]


@dataclass
class Code:
    """The modules of one repository; finds and parses each once."""

    root: Path
    _modules: dict[str, Module | None] = field(default_factory=dict)

    def find(self, name: str) -> Module | None:
        """Return a module of the repository by its dotted name, None where it is somebody else's."""
        if name not in self._modules:
            self._modules[name] = self._load(name)
        return self._modules[name]

    def _load(self, name: str) -> Module | None:
        base = self.root.joinpath(*name.split("."))
        for path, is_package in ((base / "__init__.py", True), (base.with_name(f"{base.name}.py"), False)):
            if path.is_file():
                return Module(name, path, ast.parse(path.read_bytes(), str(path)), is_package)
        return None


@dataclass(frozen=True)
class Covered:
    """What the digest of a transform covers."""

    digest: str
    function: ast.FunctionDef | ast.AsyncFunctionDef | None
    """The transform's own; None where its syntax is not to be had."""
    syntax: tuple[ast.AST, ...]
    """Every piece of code, that function among them."""
    held: tuple[str, ...]
    """What its closure holds, written as code."""


def cover(transform: Transform, code: Code) -> Covered:
    """Return the digest of a declared transform, with the code that it covers."""
    parts = _Parts(code)
    parts.add("declaration", _describe(transform))
    module = code.find(transform.module)
    node = None if module is None else _find_function(module, transform)
    if module is None or node is None:
        parts.add("file", Path(transform.file).read_bytes().hex())
    else:
        parts.visit_module_effects(module)
        parts.add_syntax(f"{module.name}:{transform.name}", node)
        parts.follow(module, node)
    parts.add_closure(transform.function)
    return Covered(parts.digest(), node, tuple(parts.syntax), tuple(parts.held))


class _Parts:
    """What counts, collected once each; order of discovery does not matter."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._parts: dict[str, str] = {}
        self.syntax: list[ast.AST] = []
        self.held: list[str] = []

    def add(self, name: str, text: str) -> bool:
        """Add one part; return whether it is new."""
        if name in self._parts:
            return False
        self._parts[name] = text
        return True

    def add_syntax(self, name: str, node: ast.AST) -> bool:
        """Add one piece of code; return whether it is new."""
        is_new = self.add(name, _dump(node))
        if is_new:
            self.syntax.append(node)
        return is_new

    def digest(self) -> str:
        """Return the digest of all parts."""
        whole = hashlib.sha256(FORMAT.encode())
        for name in sorted(self._parts):
            whole.update(f"\0{name}\0{self._parts[name]}".encode("utf-8", "surrogatepass"))
        return whole.hexdigest()

    def follow(self, module: Module, node: ast.AST) -> None:
        """Add everything that the names in a piece of syntax lead to."""
        for name in _used_names(node):
            self._add_name(module, name)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import | ast.ImportFrom):  # an import inside a function
                for bound in _bound_names(inner):
                    self._add_import(module, inner, bound)

    def visit_module_effects(self, module: Module) -> None:
        """Add what a module does when it is imported, and the packages above it."""
        for parent in _parents(module.name):
            package = self._code.find(parent)
            if package is not None:
                self._add_effects(package)
        self._add_effects(module)

    def add_closure(self, function: types.FunctionType | object) -> None:
        """Add what a function made in a loop or a factory holds."""
        code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None) or ()
        if code is None:
            return
        for name, cell in zip(code.co_freevars, cells, strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            if isinstance(value, str | int | float | bool | bytes | tuple | frozenset | list | dict | type(None)):
                self.held.append(_ADDRESS.sub("", repr(value)))
                self.add(f"closure {name}", self.held[-1])

    def _add_effects(self, module: Module) -> None:
        for index, statement in enumerate(module.effects):
            if self.add_syntax(f"{module.name} effect {index}", statement):
                self.follow(module, statement)
                if isinstance(statement, ast.ImportFrom):
                    self._add_star(module, statement)

    def _add_star(self, module: Module, statement: ast.ImportFrom) -> None:
        source = self._code.find(_resolve(module, statement))
        if source is not None:
            self._add_whole(source)

    def _add_name(self, module: Module, name: str) -> None:
        for index, statement in enumerate(module.bindings.get(name, ())):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self._add_import(module, statement, name)
            elif self.add_syntax(f"{module.name}:{name}:{index}", statement):
                self.follow(module, statement)

    def _add_import(self, module: Module, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        for alias in statement.names:
            bound = alias.asname or (alias.name if isinstance(statement, ast.ImportFrom) else alias.name.split(".")[0])
            if bound != name:
                continue
            if isinstance(statement, ast.Import):
                self._add_imported_module(module, name, alias.name)
            else:
                self._add_imported_name(module, name, _resolve(module, statement), alias.name)

    def _add_imported_module(self, module: Module, name: str, target: str) -> None:
        source = self._code.find(target)
        if source is None:
            self.add(f"{module.name}:{name} import", target)
        else:
            self._add_whole(source)

    def _add_imported_name(self, module: Module, name: str, source_name: str, original: str) -> None:
        submodule = self._code.find(f"{source_name}.{original}")
        source = self._code.find(source_name)
        if submodule is not None and (source is None or original not in source.bindings):
            self._add_whole(submodule)
        elif source is not None:
            self.visit_module_effects(source)
            self._add_name(source, original)
            if original not in source.bindings:
                self._add_whole(source)  # made by __getattr__ or a star import
        else:
            self.add(f"{module.name}:{name} import", f"{source_name}.{original}")

    def _add_whole(self, module: Module) -> None:
        if not self.add_syntax(f"{module.name} whole", module.tree):
            return
        self.visit_module_effects(module)
        for statement in module.tree.body:
            self.follow(module, statement)
            if isinstance(statement, ast.Import | ast.ImportFrom):
                for name in _bound_names(statement):
                    self._add_import(module, statement, name)


def _describe(transform: Transform) -> str:
    inputs = sorted((name, source.path, source.branch) for name, source in transform.inputs.items())
    outputs = sorted(
        (name, out.path, [(check.name, check.expectation.describe(), check.on_error) for check in out.checks])
        for name, out in transform.outputs.items()
    )
    options = (transform.profile, transform.size, transform.is_incremental, transform.semantic_version)
    return repr((inputs, outputs, options))


def _find_function(module: Module, transform: Transform) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == transform.name:
            lines = {node.lineno, *(decorator.lineno for decorator in node.decorator_list)}
            if transform.line in lines:
                return node
    return None


def _bound_names(statement: ast.AST) -> Iterator[str]:
    """Yield every name that a statement at module level binds, also inside if, for, with and try."""
    if isinstance(statement, _SCOPES):
        yield statement.name
        return
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            if alias.name != "*":
                yield alias.asname or (
                    alias.name if isinstance(statement, ast.ImportFrom) else alias.name.split(".")[0]
                )
        return
    if isinstance(statement, ast.Name) and isinstance(statement.ctx, ast.Store):
        yield statement.id
    if isinstance(statement, ast.Lambda):
        return
    for child in ast.iter_child_nodes(statement):
        yield from _bound_names(child)


def _used_names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    for length in range(1, len(parts)):
        yield ".".join(parts[:length])


def _resolve(module: Module, statement: ast.ImportFrom) -> str:
    if not statement.level:
        return statement.module or ""
    parts = module.name.split(".")
    keep = len(parts) - statement.level + (1 if module.is_package else 0)
    return ".".join([*parts[: max(keep, 0)], *([statement.module] if statement.module else [])])


def _dump(node: ast.AST) -> str:
    """Write syntax without positions and docstrings."""
    return ast.dump(_Plain().visit(ast.parse(ast.unparse(node))))


class _Plain(ast.NodeTransformer):
    """Removes docstrings and what else only people read."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list) and isinstance(
            node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            statements = [statement for statement in body if not _is_text(statement)]
            node.body = statements or [ast.Pass()]
        return node


def list_modules(root: Path, packages: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield every module of the packages below a root, sorted by name."""
    for package in packages:
        base = root.joinpath(*package.split("."))
        if base.with_name(f"{base.name}.py").is_file():
            yield package, base.with_name(f"{base.name}.py")
        for path in sorted(base.rglob("*.py")) if base.is_dir() else ():
            parts = path.relative_to(root).with_suffix("").parts
            if all(part.isidentifier() for part in parts):
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path
