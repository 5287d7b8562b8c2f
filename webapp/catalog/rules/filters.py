"""Row filters in Iceberg's JSON form → what files can be chosen by, and what is left to check of each chosen file.

Choosing is inclusive: a predicate that the server cannot judge (a transform as its term, a value of an unusual type, a
column inside a list) matches every file and stays in the residual, where the reader applies it to rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from pyiceberg import expressions as ice
from pyiceberg.expressions import literals
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
from pyiceberg.utils import datetime as moments

from webapp.catalog.rules.errors import IllegalArgument, Malformed
from webapp.catalog.rules.single_values import single_value

# Deeper trees are not judged but handed back whole: visitors of a tree need several frames of Python's stack a level.
MAX_DEPTH = 120
MAX_VALUES = 10_000
COMPARISONS: Mapping[str, type[ice.LiteralPredicate]] = {
    "lt": ice.LessThan,
    "lt-eq": ice.LessThanOrEqual,
    "gt": ice.GreaterThan,
    "gt-eq": ice.GreaterThanOrEqual,
    "eq": ice.EqualTo,
    "not-eq": ice.NotEqualTo,
    "starts-with": ice.StartsWith,
    "not-starts-with": ice.NotStartsWith,
}
UNARIES: Mapping[str, type[ice.UnaryPredicate]] = {
    "is-null": ice.IsNull,
    "not-null": ice.NotNull,
    "is-nan": ice.IsNaN,
    "not-nan": ice.NotNaN,
}
SETS: Mapping[str, type[ice.SetPredicate]] = {"in": ice.In, "not-in": ice.NotIn}
FLIPPED = {"lt": "gt", "lt-eq": "gt-eq", "gt": "lt", "gt-eq": "lt-eq", "eq": "eq", "not-eq": "not-eq"}
_ALL_DIGITS = Context(prec=76)
"""Twice as many digits as a decimal column has: Python's own context rounds to 28."""
_FINE = re.compile(r"\.\d{6}0*[1-9]")
INTEGERS = {IntegerType: 31, LongType: 63}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One predicate: as PyIceberg judges it (None where it cannot), and as the residual shows it."""

    predicate: ice.BooleanExpression | None
    source: Any


@dataclass(frozen=True, slots=True)
class Junction:
    """`and` or `or` of two filters."""

    kind: str
    left: Filter
    right: Filter


Filter = Leaf | Junction | bool


class _NotJudged(Exception):
    """This predicate is for the reader of the rows."""


def parse_filter(body: Any, *, schema: Schema, case_sensitive: bool, hidden: frozenset[str] = frozenset()) -> Filter:
    """Parse the filter of a scan, with its negations pushed down to the predicates.

    Args:
        body: the filter in JSON.
        schema: what its names mean.
        case_sensitive: whether their case counts.
        hidden: columns that the schema leaves out because their types are not judged.

    """
    return _FilterParser(schema, case_sensitive=case_sensitive, hidden=hidden).parse(body, negated=False, depth=0)


def expression_of(condition: Filter) -> ice.BooleanExpression:
    """Return an expression to choose files by: it holds for every row that the filter holds for."""
    if isinstance(condition, bool):
        return ice.AlwaysTrue() if condition else ice.AlwaysFalse()
    if isinstance(condition, Leaf):
        return ice.AlwaysTrue() if condition.predicate is None else condition.predicate
    join = ice.And if condition.kind == "and" else ice.Or
    return join(expression_of(condition.left), expression_of(condition.right))


def filter_json(condition: Filter) -> Any:
    """Return a filter in the specification's form."""
    if isinstance(condition, bool):
        return condition
    if isinstance(condition, Leaf):
        return condition.source
    return {"type": condition.kind, "left": filter_json(condition.left), "right": filter_json(condition.right)}


def residual(condition: Filter, judge: Callable[[Leaf], bool | None]) -> Filter:
    """Return what is left of a filter where `judge` says that some predicates hold for all rows, or for none."""
    if isinstance(condition, bool):
        return condition
    if isinstance(condition, Leaf):
        verdict = judge(condition)
        return condition if verdict is None else verdict
    left, right = residual(condition.left, judge), residual(condition.right, judge)
    deciding = condition.kind == "or"
    if left is deciding or right is deciding:
        return deciding
    if isinstance(left, bool):
        return right
    return left if isinstance(right, bool) else Junction(condition.kind, left, right)


class _FilterParser:
    def __init__(self, schema: Schema, *, case_sensitive: bool, hidden: frozenset[str]) -> None:
        self._schema = schema
        self._hidden = hidden
        self._case_sensitive = case_sensitive
        self._values_left = MAX_VALUES

    def parse(self, node: Any, *, negated: bool, depth: int) -> Filter:
        if isinstance(node, bool):
            return node is not negated
        if not isinstance(node, dict) or not isinstance(node.get("type"), str):
            message = f"Cannot parse filter: {str(node)[:200]}"
            raise Malformed(message)
        kind = node["type"].lower().replace("_", "-")
        if kind in ("true", "false"):
            return (kind == "true") is not negated
        if kind == "literal" and isinstance(node.get("value"), bool):
            return node["value"] is not negated
        if depth > MAX_DEPTH:
            return _unjudged(node, negated=negated)
        if kind == "not":
            return self.parse(_part(node, "child"), negated=not negated, depth=depth + 1)
        if kind in ("and", "or"):
            meant = {"and": "or", "or": "and"}[kind] if negated else kind
            left = self.parse(_part(node, "left"), negated=negated, depth=depth + 1)
            right = self.parse(_part(node, "right"), negated=negated, depth=depth + 1)
            return Junction(meant, left, right)
        if kind not in {*COMPARISONS, *UNARIES, *SETS}:
            message = f"Cannot parse filter: unknown operation {node['type']!r}"
            raise Malformed(message)
        return self._leaf(kind, node, negated=negated)

    def _leaf(self, kind: str, node: dict[str, Any], *, negated: bool) -> Leaf:
        term, value = _term_and_value(kind, node)
        if kind in COMPARISONS and _is_literal(term) and not _is_literal(value):
            if kind not in FLIPPED:
                return _unjudged(node, negated=negated)
            kind, term, value = FLIPPED[kind], value, term
        column = self._field(term)
        if column is None:
            return _unjudged(node, negated=negated)
        try:
            predicate, source = self._predicate(kind, column, value)
        except _NotJudged:
            return _unjudged(node, negated=negated)
        if negated:
            return Leaf(~predicate, {"type": "not", "child": source})
        return Leaf(predicate, source)

    def _field(self, term: Any) -> NestedField | None:
        """Return the column that a term names; None for a term that is more than a column."""
        key = term
        if isinstance(term, dict):
            if term.get("type") != "reference":
                return None
            key = next((term[key] for key in ("name", "term", "id") if key in term), None)
        if not isinstance(key, str | int) or isinstance(key, bool):
            message = f"Cannot parse filter: {str(term)[:200]} is no column"
            raise Malformed(message)
        if str(key).split(".")[0] in self._hidden:
            return None
        try:
            return self._schema.find_field(key, case_sensitive=self._case_sensitive)
        except ValueError:
            message = f"Cannot find field '{key}' in the schema of the scan"
            raise IllegalArgument(message) from None

    def _predicate(self, kind: str, field: NestedField, value: Any) -> tuple[ice.BooleanExpression, dict[str, Any]]:
        name = self._schema.find_column_name(field.field_id)
        if name is None or not self._is_reachable(field):
            raise _NotJudged
        if kind in UNARIES:
            if self._is_nested(field):
                # A required column of an absent struct is null too, which the judges do not know.
                raise _NotJudged
            return UNARIES[kind](name), {"type": kind, "term": name}
        if kind in SETS:
            return self._set(kind, name, field.field_type, value)
        self._count(1)
        literal = literal_of(field.field_type, value)
        if kind in ("starts-with", "not-starts-with") and not isinstance(field.field_type, StringType):
            raise _NotJudged
        shown = single_value(field.field_type, literal.value)
        return COMPARISONS[kind](name, literal), {"type": kind, "term": name, "value": shown}

    def _set(
        self, kind: str, name: str, column: IcebergType, value: Any
    ) -> tuple[ice.BooleanExpression, dict[str, Any]]:
        values = value.get("values") if isinstance(value, dict) else value
        if not isinstance(values, list):
            message = f"Cannot parse filter: '{kind}' needs a list of values"
            raise Malformed(message)
        self._count(len(values))
        elements = [literal_of(column, item) for item in values]
        shown = [single_value(column, item.value) for item in elements]
        bits = INTEGERS.get(type(column))
        fitting = [item for item in elements if bits is None or -(2**bits) <= item.value < 2**bits]
        return SETS[kind](name, set(fitting)), {"type": kind, "term": name, "values": shown}

    def _count(self, values: int) -> None:
        self._values_left -= values
        if self._values_left < 0:
            raise _NotJudged

    def _is_nested(self, field: NestedField) -> bool:
        return all(field.field_id != other.field_id for other in self._schema.fields)

    def _is_reachable(self, field: NestedField) -> bool:
        try:
            self._schema.accessor_for_field(field.field_id)
        except ValueError:
            return False
        return True


def literal_of(column: IcebergType, value: Any) -> literals.Literal[Any]:
    """Read a JSON value as a literal of a column's type; as Java sends times, numbers count days or microseconds."""
    if isinstance(value, dict):
        value = value.get("value")
    make = _LITERALS.get(type(column))
    if make is None or value is None:
        raise _NotJudged
    try:
        return make(column, value)
    except (ValueError, TypeError, InvalidOperation, OverflowError):
        message = f"Cannot parse filter: {str(value)[:100]!r} is no value of type {column}"
        raise IllegalArgument(message) from None


def _boolean(_column: Any, value: Any) -> literals.Literal[Any]:
    if not isinstance(value, bool):
        raise TypeError
    return literals.BooleanLiteral(value)


def _integer(_column: Any, value: Any) -> literals.Literal[Any]:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return literals.LongLiteral(value)


def _double(_column: Any, value: Any) -> literals.Literal[Any]:
    number = float(value)
    if isinstance(value, bool) or number != number:  # noqa: PLR0124 - not a number
        raise TypeError
    if isinstance(value, int) and number != value:
        raise _NotJudged
    return literals.DoubleLiteral(number)


def _decimal(column: Any, value: Any) -> literals.Literal[Any]:
    number = Decimal(str(value))
    try:
        fitted = number.quantize(Decimal(1).scaleb(-column.scale), context=_ALL_DIGITS)
    except InvalidOperation:
        if number.is_finite():
            raise _NotJudged from None
        raise
    if fitted != number:
        raise _NotJudged
    return literals.DecimalLiteral(fitted)


def _text(_column: Any, value: Any) -> literals.Literal[Any]:
    if not isinstance(value, str):
        raise TypeError
    return literals.StringLiteral(value)


def _bytes(column: Any, value: Any) -> literals.Literal[Any]:
    raw = bytes.fromhex(value)
    return literals.FixedLiteral(raw) if isinstance(column, FixedType) else literals.BinaryLiteral(raw)


def _day(_column: Any, value: Any) -> literals.Literal[Any]:
    days = value if isinstance(value, int) else moments.date_to_days(date.fromisoformat(value))
    return literals.DateLiteral(days)


def _time(_column: Any, value: Any) -> literals.Literal[Any]:
    _check_fraction(value)
    return literals.TimeLiteral(value if isinstance(value, int) else moments.time_to_micros(time.fromisoformat(value)))


def _check_fraction(value: Any) -> None:
    """Leave more digits than microseconds have to the reader: Python cuts them off."""
    if isinstance(value, str) and _FINE.search(value):
        raise _NotJudged


def _moment(_column: Any, value: Any) -> literals.Literal[Any]:
    _check_fraction(value)
    micros = value if isinstance(value, int) else moments.datetime_to_micros(datetime.fromisoformat(value))
    return literals.TimestampLiteral(micros)


_LITERALS: Mapping[type, Callable[[Any, Any], literals.Literal[Any]]] = {
    BooleanType: _boolean,
    IntegerType: _integer,
    LongType: _integer,
    FloatType: _double,
    DoubleType: _double,
    DecimalType: _decimal,
    StringType: _text,
    FixedType: _bytes,
    BinaryType: _bytes,
    DateType: _day,
    TimeType: _time,
    TimestampType: _moment,
    TimestamptzType: _moment,
}


def _unjudged(node: Any, *, negated: bool) -> Leaf:
    return Leaf(None, {"type": "not", "child": node} if negated else node)


def _is_literal(node: Any) -> bool:
    return not isinstance(node, dict) or node.get("type") == "literal"


def _term_and_value(kind: str, node: dict[str, Any]) -> tuple[Any, Any]:
    """Read both generations of the form: `term` and `value(s)`, or `child`, or `left` and `right`."""
    if "term" in node:
        return node["term"], node.get("values" if kind in SETS else "value")
    if kind in COMPARISONS:
        return _part(node, "left"), _part(node, "right")
    return _part(node, "child"), node.get("values")


def _part(node: dict[str, Any], key: str) -> Any:
    if key not in node:
        message = f"Cannot parse filter: '{key}' is missing in {str(node)[:200]}"
        raise Malformed(message)
    return node[key]
