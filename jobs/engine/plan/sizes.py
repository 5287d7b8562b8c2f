"""How large rows are once they are decoded: what decides where they are compared.

Compressed bytes say little about it: a column of one value takes none on disk and its full width in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.engine.read.fields import ListType, MapType, Primitive

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs.engine.read.fields import Schema, Type
    from jobs.engine.read.metadata import LiveEntry

_WIDTHS = {"boolean": 1, "int": 4, "float": 4, "date": 4, "string": 24, "binary": 24, "uuid": 16}
_OTHER_WIDTH = 8
_DECIMAL_WIDTH = 16
_ITEMS = 4
"""Entries that a list or map is taken to have."""


def estimate_decoded_bytes(schema: Schema, files: Iterable[LiveEntry]) -> int:
    """Estimate how much memory all rows of some files take: no less than the files themselves."""
    width = sum(_width(field.type) for field in schema.fields)
    return sum(max(file.records * width, file.size_in_bytes) for file in files)


def _width(type_: Type) -> int:
    if isinstance(type_, Primitive):
        return _DECIMAL_WIDTH if type_.decimal is not None else _WIDTHS.get(type_.name, _OTHER_WIDTH)
    if isinstance(type_, ListType):
        return _ITEMS * _width(type_.element.type)
    if isinstance(type_, MapType):
        return _ITEMS * (_width(type_.key.type) + _width(type_.value.type))
    return sum(_width(field.type) for field in type_.fields)
