"""The columns of a Parquet file as a tree, and the field ids of one that was written without any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NO_FIELD = -1
"""The id of what a name mapping leaves out."""


@dataclass(frozen=True)
class Node:
    """One column of a Parquet file, or a part of one."""

    name: str
    id: int | None
    type: str
    """The type that DuckDB reads it as."""
    repeated: bool
    children: tuple[Node, ...]


def read_tree(rows: Any) -> Node:
    """Read Parquet's flat schema, a parent before its children, as a tree."""
    name, field_id, type_, count, repeated = next(rows)
    return Node(name, field_id, type_, repeated, tuple(read_tree(rows) for _ in range(count)))


def has_repeated(nodes: Iterable[Node]) -> bool:
    """Return whether there are lists or maps among columns or in them."""
    return any(node.repeated or has_repeated(node.children) for node in nodes)


def dedupe(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Name fields as DuckDB does: one that differs from an earlier one by case only gets a number."""
    seen: set[str] = set()
    deduped = []
    for node in nodes:
        name, count = node.name, 0
        while name.lower() in seen:
            count += 1
            name = f"{node.name}_{count}"
        seen.add(name.lower())
        deduped.append(Node(name, node.id, node.type, node.repeated, node.children))
    return tuple(deduped)


def identify(nodes: Sequence[Node], mapping: Sequence[Mapping[str, Any]], *names: str) -> tuple[Node, ...]:
    """Give nodes the ids that a name mapping has for them; the insides of lists and maps go by other names there."""
    parts = {name: part for part in mapping for name in part["names"]}
    mapped = [(node, parts.get(name, {})) for node, name in zip(nodes, names or [n.name for n in nodes], strict=True)]
    return tuple(
        replace(node, id=part.get("field-id", _NO_FIELD), children=_identify_inner(node, part.get("fields", ())))
        for node, part in mapped
    )


def _identify_inner(node: Node, mapping: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    if len(node.children) != 1 or not node.children[0].repeated:
        return identify(node.children, mapping)
    middle = node.children[0]
    is_map = len(mapping) == len(middle.children) == 2
    if not is_map and element_of(node) is middle:
        return identify((middle,), mapping, "element")
    inner = identify(middle.children, mapping, *(("key", "value") if is_map else ("element",)))
    return (replace(middle, children=inner),)


def element_of(node: Node) -> Node | None:
    """Find the element of a Parquet list: below one repeated group, or in old files the repeated node itself."""
    if len(node.children) != 1 or not node.children[0].repeated:
        return None
    middle = node.children[0]
    if len(middle.children) == 1 and middle.name not in {"array", f"{node.name}_tuple"}:
        return middle.children[0]
    return middle
