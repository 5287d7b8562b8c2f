"""The digest of a transform: it stays the same only while the transform certainly computes the same.

It covers the declaration, every module of the repository that its module loads, every file that these open, list or look
for while they are imported, and the values that its function holds. Left out is only what certainly never runs
(`jobs.transforms.reachable`). Files that a job uses later, while it runs, are recorded with its result
(`jobs.transforms.trace`).
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from jobs.transforms import reachable
from jobs.transforms.bindings import list_parts
from jobs.transforms.declare import Transform
from jobs.transforms.fingerprints import FORMAT, Files, read_words
from jobs.transforms.held_values import UnstableValueError, ValueWriter
from jobs.transforms.module_code import ModuleCode, Statement
from jobs.transforms.reachable import keep_statements
from jobs.transforms.trace import PATHS, TREE, Trace

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Covered:
    """What the digest of a transform covers."""

    digest: str
    keys: tuple[str, ...]
    """Keys of everything that counts; `part:` where something of a module is left out."""
    why_all: str
    """Why the whole repository counts; empty where it does not."""
    function: Function | None
    """The transform's own syntax, if it can be found."""
    syntax: tuple[ast.AST, ...]
    """Every piece of code that counts."""
    held: tuple[str, ...]
    """The texts that its function holds."""


@dataclass
class Code:
    """The code of one repository after its modules were imported."""

    files: Files
    trace: Trace
    _modules: dict[str, ModuleCode | None] = field(default_factory=dict)
    _closures: dict[str, set[str]] = field(default_factory=dict)
    _passing: dict[str, bool] = field(default_factory=dict)

    def find(self, path: str) -> ModuleCode | None:
        """Return a module by its path; None where it cannot be parsed."""
        if path not in self._modules:
            module = self.files.find_module(path)
            self._modules[path] = None if module is None else ModuleCode(module)
        return self._modules[path]

    @cached_property
    def loaded(self) -> frozenset[str]:
        """Full names of all modules that were imported."""
        names = (path.removesuffix(".py").removesuffix("/__init__") for path in self.trace.modules)
        return frozenset(name.replace("/", ".") for name in names)

    @cached_property
    def packages(self) -> frozenset[str]:
        """Names of the packages at the top of the repository."""
        return frozenset(name.partition(".")[0] for name in self.loaded)

    @cached_property
    def parts(self) -> frozenset[str]:
        """Beginnings and ends of these names."""
        return list_parts(self.loaded)

    def passes_module(self, path: str) -> bool:
        """Return whether a module uses one of the repository's modules as a value."""
        if path not in self._passing:
            module = self.find(path)
            self._passing[path] = module is not None and module.passes_module(self.loaded, self.parts)
        return self._passing[path]

    def list_closure(self, paths: Iterable[str]) -> set[str]:
        """Return these modules and everything that they load."""
        closure: set[str] = set()
        for path in paths:
            if path not in self._closures:
                self._closures[path] = self.trace.list_closure(path)
            closure |= self._closures[path]
        return closure


def cover(transform: Transform, code: Code) -> Covered:
    """Return the digest of a declared transform, with all that it covers."""
    trace = code.trace
    writer = ValueWriter(trace.root)
    held, why_all = _write_held(transform, writer)
    texts = tuple(writer.texts)
    checks = _write_checks(transform, trace.root)
    own = trace.find_path(transform.declared_in) or ""
    held_files = [file for file in writer.files if file.startswith("/")]
    paths = code.list_closure({own, *(path for file in held_files if (path := trace.find_path(file)))})
    if trace.find_source(inspect.unwrap(transform.function).__code__) is None:
        why_all = why_all or "its function is not written in a file of the repository"
    if any(file.startswith("<") for file in writer.files):
        why_all = why_all or "its code was made from a text while the modules were imported"
    keys = trace.list_keys(paths)
    modules = [module for path in sorted(paths) if (module := code.find(path)) is not None]
    keys |= {f"file:{path}" for path in paths if code.find(path) is None}
    names = frozenset().union(*(module.names for module in modules))
    if names & reachable.LOOKUP:
        names = names.union(*(module.words for module in modules)) - (reachable.WORDS - names)
    if names & reachable.TEXT:
        keys |= {f"file:{path}" for path in paths}
    if names & reachable.UNFOLLOWED:
        why_all = why_all or "its code looks for files in a way that cannot be followed"
    if TREE in keys:
        why_all = why_all or "some files that its modules open cannot be followed"
    keys |= {TREE} if why_all else set()
    indices = keep_statements(
        modules,
        roots=_find_roots(transform, code),
        names=[inspect.unwrap(transform.function).__name__],
        is_whole=_list_whole(names, paths, own, code),
    )
    statements = {module.path: [module.statements[index] for index in indices[module.path]] for module in modules}
    if may_miss_files(modules, [statement for rows in statements.values() for statement in rows], code):
        keys.add(PATHS)
    is_left_out = {module.path for module in modules if len(indices[module.path]) < len(module.statements)}
    listed = {*keys, *(f"{'part' if path in is_left_out else 'code'}:{path}" for path in statements)}
    return Covered(
        digest=_compute_digest([_describe(transform), held, checks], statements, sorted(keys), code.files),
        keys=tuple(sorted(listed)),
        why_all=why_all,
        function=_find_function(transform, statements, trace),
        syntax=tuple(statement.node for rows in statements.values() for statement in rows),
        held=texts,
    )


def _write_held(transform: Transform, writer: ValueWriter) -> tuple[str, str]:
    """Return what a transform holds as text, and why that cannot be known."""
    try:
        return writer.write(transform.function), ""
    except UnstableValueError as error:
        return "", f"it holds {error}"


def _write_checks(transform: Transform, root: str) -> str:
    checks = [(name, [vars(check) for check in output.checks]) for name, output in sorted(transform.outputs.items())]
    return ValueWriter(root).write(checks)


def _list_whole(names: frozenset[str], paths: set[str], own: str, code: Code) -> set[str]:
    """Return the modules of which nothing may be left out, for what the code looks up while it runs."""
    if names & reachable.REFLECTION or any(module.is_asking_by_parts for module in map(code.find, paths) if module):
        return paths
    if names & reachable.LOOKUP or any(map(code.passes_module, paths)):
        imported = {target for path in paths for target in code.trace.edges.get(path, ())}
        return paths - ({own} - imported)
    return set()


def _find_roots(transform: Transform, code: Code) -> dict[str, int]:
    """Return the statement with the transform's own function."""
    function = inspect.unwrap(transform.function)
    path = code.trace.find_source(function.__code__)
    module = None if path is None else code.find(path)
    if path is None or module is None:
        return {}
    index = module.find_statement(function.__code__.co_firstlineno)
    return {} if index is None else {path: index}


def _find_function(transform: Transform, statements: dict[str, list[Statement]], trace: Trace) -> Function | None:
    function = inspect.unwrap(transform.function)
    path = trace.find_source(function.__code__)
    for statement in statements.get(path or "", ()):
        for node in ast.walk(statement.node):
            if isinstance(node, Function) and node.name == function.__name__:
                lines = {node.lineno, *(decorator.lineno for decorator in node.decorator_list)}
                if function.__code__.co_firstlineno in lines:
                    return node
    return None


def _compute_digest(
    declared: Iterable[str], statements: dict[str, list[Statement]], keys: Iterable[str], files: Files
) -> str:
    digest = hashlib.sha256(FORMAT.encode())
    parts = [
        *declared,
        *(f"{path} {' '.join(row.code.fingerprint for row in rows)}" for path, rows in statements.items()),
        *(f"{key} {files.fingerprint(key)}" for key in keys),
    ]
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def may_name_left_out(covers: Iterable[str], used: Iterable[str], code: Code) -> bool:
    """Return whether files that a job used may name code that its digest leaves out.

    Args:
        covers: keys that the digest covers.
        used: other keys, of what the job used while it ran.
        code: of its repository.

    Code can use anything by its name. A library that takes names from a file, such as DuckDB from a query, uses no
    other transforms.
    """
    parts = [module for key in covers if key.startswith("part:") and (module := code.find(key.removeprefix("part:")))]
    optional = frozenset(name for module in parts for name in module.optional)
    values = optional - {name for module in parts for name in module.transforms}
    files = [key for key in covers if key.startswith("file:")]
    for key in [*files, *used] if optional else ():
        kind, _, path = key.partition(":")
        if kind == "file":
            words = read_words(code.files.root / path)
            is_naming = words is None or bool(words & values)
        else:
            module = code.find(path) if kind == "code" else None
            named = frozenset() if module is None else module.names | module.words
            is_naming = bool(named & (optional | reachable.REFLECTION | reachable.LOOKUP))
        if is_naming:
            return True
    return False


def may_miss_files(modules: Iterable[ModuleCode], statements: Iterable[Statement], code: Code) -> bool:
    """Return whether code may go on where a library did not find a file, which nothing reports.

    Args:
        modules: all of the code.
        statements: those of them that are used.
        code: of their repository.

    """
    libraries = frozenset().union(*(module.libraries for module in modules)) - code.packages
    is_asking = "duckdb" in libraries and any("glob" in module.words for module in modules)
    return is_asking or (bool(libraries) and any(statement.is_catching for statement in statements))


def _describe(transform: Transform) -> str:
    inputs = sorted((name, source.path, source.branch) for name, source in transform.inputs.items())
    outputs = sorted((name, output.path) for name, output in transform.outputs.items())
    options = (transform.profile, transform.size, transform.is_incremental, transform.semantic_version)
    return repr((inputs, outputs, options))


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
