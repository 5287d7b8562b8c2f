"""Columns, and the fields of struct columns, by the names that people write: `id`, `place.city.code`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from jobs.engine.read.fields import StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jobs.engine.read.fields import Field


class Named(Protocol):
    """A column of any library's schema, or a field in one."""

    @property
    def name(self) -> str: ...


Part = TypeVar("Part", bound=Named)


def walk_paths(fields: Iterable[Part], parts: Callable[[Part], Iterable[Part]]) -> Iterator[tuple[Part, ...]]:
    """Yield every column, then the fields of structs level by level, each below the fields that it stands in."""
    level: list[tuple[Part, ...]] = [(field,) for field in fields]
    while level:
        yield from level
        level = [(*path, part) for path in level for part in parts(path[-1])]


def list_paths(fields: Iterable[Part], parts: Callable[[Part], Iterable[Part]]) -> dict[str, tuple[Part, ...]]:
    """List the paths by dotted name; a name that has dots of its own goes before the path that reads like it."""
    paths: dict[str, tuple[Part, ...]] = {}
    for path in walk_paths(fields, parts):
        paths.setdefault(".".join(field.name for field in path), path)
    return paths


def field_parts(field: Field) -> Iterable[Field]:
    """Return what `list_paths` follows in the engine's schemas: structs alone, since a list or map holds many values."""
    return field.type.fields if isinstance(field.type, StructType) else ()


def list_instead(name: str, paths: Mapping[str, tuple[Part, ...]]) -> str:
    """Say which columns there are where a name is none of the paths, and how far it goes."""
    columns = ", ".join(path[0].name for path in paths.values() if len(path) == 1) or "none"
    why = explain_missing(name, paths)
    return f"there are {columns}.{why and ' '}{why}"


def explain_missing(name: str, paths: Mapping[str, tuple[Part, ...]]) -> str:
    """Say where a name that is no path leaves the columns; empty where it does not even begin with one."""
    parent = max((other for other in paths if name.startswith(f"{other}.")), key=len, default="")
    if not parent:
        return ""
    inside = [path[-1].name for path in paths.values() if path[:-1] == paths[parent]]
    if inside:
        return f"The fields of {parent} are {', '.join(inside)}."
    return f"A name cannot go through {parent}, which is no struct."
