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
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from jobs.transforms import libraries, reachable
from jobs.transforms.bindings import list_parts
from jobs.transforms.declare import Transform
from jobs.transforms.fingerprints import FORMAT, Files, read_words
from jobs.transforms.held_values import UnstableValueError, ValueWriter
from jobs.transforms.module_code import ModuleCode, Statement
from jobs.transforms.reachable import keep_statements
from jobs.transforms.trace import PATHS, TREE, Trace

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SIZES, _TEXTS = frozenset({"size", "last_modified"}), frozenset({"read_blob", "read_text"})
"""Words of a query for sizes of files, which DuckDB answers without opening them."""
_TERMS = _SIZES | _TEXTS | {"glob", "py"}
ASKING = frozenset({"duckdb", "pandas", "polars"})
"""Libraries that look for names of the code in a query."""


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


@dataclass(frozen=True)
class Use:
    """What some modules use other than by a name that is written where it is used."""

    terms: frozenset[str]
    """Terms of queries that look for files, in their texts."""
    libraries: frozenset[str]
    """Libraries that may open files without a report."""
    is_reflecting: bool
    """Whether they may reach any code."""
    is_looking_up: bool
    """Whether they look up names in modules that they import."""
    is_reading_text: bool
    """Whether they may read comments, docstrings or line numbers."""
    is_asking_by_parts: bool
    """Whether a query is put together, in which a library looks for names of the code."""
    why_all: str
    """Why they may depend on any file; empty if they do not."""

    @property
    def is_any(self) -> bool:
        """Whether they may use code that no name of theirs stands for."""
        return self.is_reflecting or self.is_looking_up or self.is_reading_text or bool(self.why_all)


@dataclass
class Code:
    """The code of one repository after its modules were imported."""

    files: Files
    trace: Trace
    _modules: dict[str, ModuleCode | None] = field(default_factory=dict)
    _closures: dict[str, set[str]] = field(default_factory=dict)
    _passing: dict[str, bool] = field(default_factory=dict)
    _words: dict[str, frozenset[str] | None] = field(default_factory=dict)
    _terms: dict[str, frozenset[str]] = field(default_factory=dict)
    _uses: dict[frozenset[str], Use] = field(default_factory=dict)

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
        """Names that may be those of a module or package of the repository, imported or not."""
        return frozenset(
            part.removesuffix(".py")
            for path in self.files.list_paths()
            for part in path.split("/")
            if "." not in part[:-3]
        )

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

    def find_words(self, path: str) -> frozenset[str] | None:
        """Return the words of a file, None where it may have any."""
        if path not in self._words:
            self._words[path] = read_words(self.files.root / path)
        return self._words[path]

    def list_terms(self, keys: Iterable[str]) -> set[str]:
        """Return the terms of queries that look for files, in the text files among some keys."""
        terms: set[str] = set()
        for path in [key.removeprefix("file:") for key in keys if key.startswith("file:")]:
            if path not in self._terms:
                self._terms[path] = _find_terms(self.find_words(path) or ())
            terms |= self._terms[path]
        return terms

    def describe_use(self, modules: Collection[ModuleCode]) -> Use:
        """Return what some modules use together."""
        paths = frozenset(module.path for module in modules)
        if paths not in self._uses:
            self._uses[paths] = self._describe_use(modules)
        return self._uses[paths]

    def _describe_use(self, modules: Collection[ModuleCode]) -> Use:
        names = frozenset().union(*(module.names for module in modules))
        words = frozenset().union(*(module.words for module in modules))
        imported = frozenset().union(*(module.imported for module in modules)) - self.packages
        is_looking_up = bool(names & reachable.LOOKUP)
        named = names | (words - reachable.WORDS) if is_looking_up else names
        is_by_parts = any(module.is_looking_up_by_parts for module in modules)
        is_asking = bool(imported & ASKING) and any(module.is_asking_by_parts for module in modules)
        is_reflecting = bool(named & reachable.REFLECTION) or is_by_parts
        unknown = sorted(filter(libraries.is_unknown, imported))
        why_all = ""
        if unknown:
            why_all = f"it imports {unknown[0]}, of which it is not known what it looks for"
        elif named & reachable.UNFOLLOWED:
            why_all = "its code looks for files in a way that cannot be followed"
        return Use(
            terms=_find_terms(words),
            libraries=frozenset().union(*(module.libraries for module in modules)) - self.packages,
            is_reflecting=is_reflecting or is_asking or any(map(libraries.takes_names, imported)),
            is_looking_up=is_looking_up,
            is_reading_text=is_reflecting
            or bool(named & reachable.TEXT or words & reachable.TEXT_WORDS)
            or any(map(libraries.reads_text, imported)),
            is_asking_by_parts=is_asking,
            why_all=why_all,
        )

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
    use = code.describe_use(modules)
    if use.is_reading_text:
        keys |= {f"file:{path}" for path in paths}
    why_all = why_all or use.why_all
    if TREE in keys:
        why_all = why_all or "some files that its modules open cannot be followed"
    keys |= {TREE} if why_all else set()
    indices = keep_statements(
        modules,
        roots=_find_roots(transform, code),
        names=[inspect.unwrap(transform.function).__name__],
        is_whole=_list_whole(use, paths, own, code),
    )
    statements = {module.path: [module.statements[index] for index in indices[module.path]] for module in modules}
    missed = list_missed(use, [statement for rows in statements.values() for statement in rows], keys, code)
    if TREE in missed:
        why_all = why_all or "a query of its code looks for modules, or for the sizes of files"
    keys |= missed
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


def _list_whole(use: Use, paths: set[str], own: str, code: Code) -> set[str]:
    """Return the modules of which nothing may be left out, for what the code looks up while it runs."""
    if use.is_reflecting:
        return paths
    # a library that imports a module by its name takes anything from it
    whole = paths & code.list_closure(paths & code.trace.named)
    if use.is_looking_up or any(map(code.passes_module, paths)):
        imported = {target for path in paths for target in code.trace.edges.get(path, ())}
        whole |= paths - ({own} - imported)
    return whole


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
            words = code.find_words(path)
            is_naming = bool(values) if words is None else bool(words & values)
        else:
            module = code.find(path) if kind == "code" else None
            named = frozenset() if module is None else module.names | module.words
            is_naming = bool(named & optional) or (module is not None and code.describe_use([module]).is_any)
        if is_naming:
            return True
    return False


def _find_terms(words: Iterable[str]) -> frozenset[str]:
    return _TERMS.intersection(word.casefold() for word in words)


def list_missed(use: Use, statements: Iterable[Statement], keys: Iterable[str], code: Code) -> set[str]:
    """Return keys for files that a library may look for without a report: it goes on where there is none.

    Args:
        use: what the code uses.
        statements: those of its statements that are used.
        keys: what else was used; a query in a file looks for files, too.
        code: of the repository.

    """
    if "duckdb" in use.libraries:
        terms = code.list_terms(keys) | use.terms
        if not _SIZES.isdisjoint(terms) and not _TEXTS.isdisjoint(terms):
            return {TREE}
        if "glob" in terms:
            return {TREE} if "py" in terms else {PATHS}
        if use.is_asking_by_parts:
            return {PATHS}
    return {PATHS} if use.libraries and any(statement.is_catching for statement in statements) else set()


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
