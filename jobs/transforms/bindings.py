"""What names stand for in the code of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from jobs.transforms.fingerprints import Module

_NAMING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


def list_imported(module: Module, bound: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return name → the full name of what an import at module level binds to it; nothing where something else may, too.

    Args:
        module: whose imports they are.
        bound: each name that it gives a meaning, as `list_all_bound` says.

    """
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
    for name, meaning in bound:
        meanings.setdefault(name, set()).add(meaning)
    return {name: full for name, full in names.items() if meanings[name] == {full}}


def list_all_bound(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
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


def list_values(tree: ast.AST, names: Mapping[str, str]) -> Iterator[str]:
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
