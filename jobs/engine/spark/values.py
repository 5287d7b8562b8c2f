"""Values and rules of a diff as columns of Spark: what may be told apart, within which tolerance, and which rows are chosen."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from operator import or_
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg import expressions as e
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from jobs.engine.plan.columns import common_number
from jobs.engine.plan.rules import bind_to
from jobs.engine.read.fields import ListType, MapType, Primitive, StructType
from jobs.engine.spark.reader import combine, groupable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.connect.column import Column

    from jobs.engine.plan.columns import Pair
    from jobs.engine.read.fields import Field, Type

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# wider than all rounding of doubles: what Spark takes for near is near however it is computed
_ROUNDING, _CAUTION = 1e-15, 1 - 1e-9


def is_alike(before: Type, after: Type) -> bool:
    """Return whether values of two types can be compared as they are."""
    if isinstance(before, Primitive) and isinstance(after, Primitive):
        return before.name == after.name
    if isinstance(before, ListType) and isinstance(after, ListType):
        return is_alike(before.element.type, after.element.type)
    if isinstance(before, MapType) and isinstance(after, MapType):
        return is_alike(before.key.type, after.key.type) and is_alike(before.value.type, after.value.type)
    if not isinstance(before, StructType) or not isinstance(after, StructType):
        return False
    both = [(field.id, field.name) for field in before.fields] == [(field.id, field.name) for field in after.fields]
    return both and all(is_alike(old.type, new.type) for old, new in zip(before.fields, after.fields, strict=True))


def common_type(before: Type, after: Type) -> str | None:
    """Return Spark's type in which the numbers of both ends are exact; None where there is none."""
    if not isinstance(before, Primitive) or not isinstance(after, Primitive):
        return None
    return common_number(before, after)


def comparable(pair: Pair, side: str) -> Column:
    """Return one end's value of a compared column; it groups and joins with the other's exactly if they are the same."""
    assert pair.before is not None  # noqa: S101 - compared pairs have both
    assert pair.after is not None  # noqa: S101
    own, value = pair.before if side == "b" else pair.after, read(pair, side)
    if is_alike(pair.before.type, pair.after.type):
        return groupable(own.type, value)
    common = common_type(pair.before.type, pair.after.type)
    assert common is not None  # noqa: S101 - other pairs are an obstacle
    return value.cast(common)


def read(pair: Pair, side: str) -> Column:
    """Return one end's value of a column, or of a field inside a struct column; a NULL struct has NULL fields."""
    if pair.outer is None:
        return F.col(f"{side}{pair.index}")
    field = pair.end(side)
    assert field is not None  # noqa: S101 - compared pairs have both
    return read(pair.outer, side).getField(field.name)


def may_differ(pair: Pair, limits: Mapping[str, float]) -> Column:
    """Return a column that is true where two values are not the same, or not surely within the tolerance."""
    different = ~comparable(pair, "b").eqNullSafe(comparable(pair, "a"))
    return different & ~F.coalesce(_is_surely_near(pair, limits), F.lit(False)) if limits else different


def _is_surely_near(pair: Pair, limits: Mapping[str, float]) -> Column:
    left, right = (F.col(f"{side}{pair.index}").cast("double") for side in "ba")
    gap = F.abs(left - right) + F.lit(_ROUNDING) * (F.abs(left) + F.abs(right))
    near = F.lit(False)
    if "absolute" in limits:
        near = near | (gap <= F.lit(limits["absolute"] * _CAUTION))
    if "relative" in limits:
        near = near | (gap <= F.lit(limits["relative"] * _CAUTION) * F.greatest(F.abs(left), F.abs(right)))
    # of infinite values and NaN the sum is neither below a number
    return (F.abs(left) + F.abs(right) < F.lit(float("inf"))) & near


# --- row filter -----------------------------------------------------------------------------------


def chosen(expression: e.BooleanExpression, pairs: Mapping[str, Pair], side: str) -> Column:
    """Return a column that is true for the rows to compare, as `rules.filter_sql` says it to DuckDB."""
    if isinstance(expression, e.And | e.Or):
        left, right = (chosen(half, pairs, side) for half in (expression.left, expression.right))
        return left & right if isinstance(expression, e.And) else left | right
    if isinstance(expression, e.AlwaysTrue | e.AlwaysFalse):
        return F.lit(isinstance(expression, e.AlwaysTrue))
    name = str(expression.term.name)
    pair = pairs[name]
    bound, field = bind_to(expression, pair, name, side)
    return _predicate(bound, field, F.col(f"{side}{pair.index}"))


def _predicate(bound: e.BooleanExpression, field: Field, value: Column) -> Column:
    if isinstance(bound, e.And | e.Or):
        left, right = (_predicate(half, field, value) for half in (bound.left, bound.right))
        return left & right if isinstance(bound, e.And) else left | right
    if isinstance(bound, e.AlwaysTrue | e.AlwaysFalse):
        return F.lit(isinstance(bound, e.AlwaysTrue))
    if isinstance(bound, e.BoundIsNull | e.BoundNotNull):
        return value.isNull() if isinstance(bound, e.BoundIsNull) else value.isNotNull()
    if isinstance(bound, e.BoundIsNaN | e.BoundNotNaN):
        # Spark's isnan of NULL is false, DuckDB's NULL
        return F.isnan(value) if isinstance(bound, e.BoundIsNaN) else value.isNotNull() & ~F.isnan(value)
    if isinstance(bound, e.BoundStartsWith | e.BoundNotStartsWith):
        test = F.startswith(value, F.lit(bound.literal.value))
        return ~test if isinstance(bound, e.BoundNotStartsWith) else test
    if isinstance(bound, e.BoundSetPredicate):
        # not isin: of many values Spark makes a set, in which -0.0 is not 0.0
        same = [value == _constant(field, member.value) for member in bound.literals]
        test = F.coalesce(combine(or_, same), F.lit(False))
        return ~test if isinstance(bound, e.BoundNotIn) else test
    constant = _constant(field, bound.literal.value)
    tests = {
        e.BoundEqualTo: lambda: value == constant,
        e.BoundNotEqualTo: lambda: value != constant,
        e.BoundLessThan: lambda: value < constant,
        e.BoundLessThanOrEqual: lambda: value <= constant,
        e.BoundGreaterThan: lambda: value > constant,
        e.BoundGreaterThanOrEqual: lambda: value >= constant,
    }
    test = tests[type(bound)]()
    is_ordered = not isinstance(bound, e.BoundEqualTo | e.BoundNotEqualTo)
    is_float = isinstance(field.type, Primitive) and field.type.is_float
    return test & ~F.isnan(value) if is_float and is_ordered else test


def _constant(field: Field, value: Any) -> Column:
    """Write a literal, in Iceberg's own form, as a column of the type of what it is compared with."""
    assert isinstance(field.type, Primitive)  # noqa: S101 - a filter names single values only
    name = field.type.name
    if name == "date":
        return F.date_add(F.lit(_EPOCH.date()), int(value))
    if name in {"timestamp", "timestamptz"}:
        at = F.timestamp_micros(F.lit(int(value)))
        return at if name == "timestamptz" else at.cast("timestamp_ntz")
    if isinstance(value, Decimal):
        return F.lit(f"{value:f}").cast(name)
    if name == "uuid":
        return F.lit(str(UUID(bytes=value)))
    return F.lit(bytes(value)) if field.type.is_bytes else F.lit(value)
