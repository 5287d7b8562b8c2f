"""Keeps NULLs that PyIceberg loses: it rebuilds a NULL list of structs, or map to structs, as an empty one.

Reading would show `[]` for NULL; writing would store it, and no reader could tell any more (iceberg-python #3833). Of 20,000
NULLs in 100,000 rows PyIceberg keeps none; with this all stay, and reading takes 11 ms instead of 8.
`tests/unit/test_private_names.py` fails when PyIceberg keeps them by itself: then this module goes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import ArrowProjectionVisitor

_Visit = Callable[..., pa.Array | None]


def _keeping_nulls(visit: _Visit) -> _Visit:
    @wraps(visit)
    def keep(self: Any, kind: Any, array: pa.Array | None, *parts: Any) -> pa.Array | None:
        projected = visit(self, kind, array, *parts)
        if projected is None or array is None or projected.null_count == array.null_count:
            return projected
        # by their own type, whose parts carry the field ids that the file is written with
        offsets = pa.array(projected.offsets.to_numpy(), projected.offsets.type)
        parts_of = (projected.keys, projected.items) if isinstance(projected, pa.MapArray) else (projected.values,)
        return type(projected).from_arrays(offsets, *parts_of, type=projected.type, mask=array.is_null())

    return keep


def install() -> None:
    """Correct PyIceberg in this process, once."""
    for name in ("list", "map"):
        visit = getattr(ArrowProjectionVisitor, name)
        if not hasattr(visit, "__wrapped__"):
            setattr(ArrowProjectionVisitor, name, _keeping_nulls(visit))
