"""Rules of a comparison as SQL: tolerances of columns, and the filter that chooses the rows to compare.

A filter is written as PyIceberg reads it, `origin = 'JFK' and delay > 60`, over the columns of the table, and chooses the
rows that a scan with PyIceberg does: a comparison with NULL leaves the row out, `not in` keeps it, and NaN is neither
less nor greater than anything.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pyiceberg import expressions as e
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyparsing import ParseException

from jobs.engine.errors import InvalidRulesError
from jobs.engine.plan.columns import MAX_PRECISION, common_number
from jobs.engine.read.exact_filters import UnfitFilterError, fit_filter
from jobs.engine.read.fields import Primitive, literal
from jobs.engine.read.scan import constant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jobs.engine.plan.columns import Pair
    from jobs.engine.read.fields import Field

_WORDS = ("absolute", "relative")
_COMPARED = {
    e.BoundEqualTo: "=",
    e.BoundNotEqualTo: "<>",
    e.BoundLessThan: "<",
    e.BoundLessThanOrEqual: "<=",
    e.BoundGreaterThan: ">",
    e.BoundGreaterThanOrEqual: ">=",
}


# --- tolerance ------------------------------------------------------------------------------------


def check_tolerance(tolerance: Mapping[str, Mapping[str, float]]) -> None:
    """Refuse what is no tolerance: it would silently be none."""
    for column, limits in tolerance.items():
        if unknown := [word for word in limits if word not in _WORDS]:
            raise InvalidRulesError(
                f"The tolerance of {column!r} names {unknown[0]!r}; it can be 'absolute', 'relative' or both."
            )
        for word, limit in limits.items():
            if not 0 <= limit < float("inf"):
                raise InvalidRulesError(
                    f"The {word} tolerance of {column!r} is {limit}; it must be a number of at least 0."
                )


def is_near(pair: Pair, *, absolute: float | None, relative: float | None) -> str:
    """Return SQL that is true where two numbers are within the tolerance."""
    left, right = f"b{pair.index}", f"a{pair.index}"
    doubles = [f"CAST({value} AS DOUBLE)" for value in (left, right)]
    gap = f"abs({doubles[0]} - {doubles[1]})"
    tests = []
    if absolute is not None:
        tests.append(_exact_gap(pair, absolute) or f"{gap} <= {absolute!r}::DOUBLE")
    if relative is not None:
        tests.append(f"{gap} <= {relative!r}::DOUBLE * greatest(abs({doubles[0]}), abs({doubles[1]}))")
    finite = " AND ".join(f"isfinite({value})" for value in doubles)
    return f"({finite} AND ({' OR '.join(tests)}))"


def _exact_gap(pair: Pair, absolute: float) -> str | None:
    """Compare integers and decimals, whose difference must not be rounded: 0.40 and 0.30 are within 0.1."""
    sides = [side.type for side in (pair.before, pair.after) if side is not None]
    before, after = sides[0], sides[-1]
    if not isinstance(before, Primitive) or not isinstance(after, Primitive):
        return None
    common, left, right = common_number(before, after), f"b{pair.index}", f"a{pair.index}"
    if common == "BIGINT":
        return f"abs(CAST({left} AS HUGEINT) - CAST({right} AS HUGEINT)) <= {min(int(absolute), 2**64)}"
    decimal = Primitive((common or "").lower()).decimal
    if decimal is None:
        return None
    steps = int(Fraction(repr(absolute)) * 10 ** decimal[1])
    if steps >= 10**MAX_PRECISION:
        return None  # far beyond what digits decide
    limit = Decimal((0, tuple(map(int, str(steps))), -decimal[1]))
    kind = f"DECIMAL({MAX_PRECISION},{decimal[1]})"
    left, right, most = (f"CAST({value} AS {kind})" for value in (left, right, f"'{limit:f}'"))
    # neither side has more digits than the type: not the difference of two signs
    return (
        f"CASE WHEN ({left} < 0) = ({right} < 0) THEN abs({left} - {right}) <= {most} "
        f"ELSE abs({right}) <= {most} AND abs({left}) <= {most} - abs({right}) END"
    )


# --- row filter -----------------------------------------------------------------------------------


def read_filter(text: str | None) -> e.BooleanExpression | None:
    """Parse a filter; None where there is none."""
    if text is None or not text.strip():
        return None
    try:
        return rewrite_not(parse(text))
    except (ParseException, ValueError) as error:
        place = f" near character {error.loc + 1}" if isinstance(error, ParseException) else ""
        raise InvalidRulesError(
            f'The row filter {text!r} cannot be read{place}; write it like "a = 1 and b is not null".'
        ) from None


def filter_columns(expression: e.BooleanExpression | None) -> frozenset[str]:
    """Return the names that a filter uses."""
    if isinstance(expression, e.And | e.Or):
        return filter_columns(expression.left) | filter_columns(expression.right)
    term = getattr(expression, "term", None)
    return frozenset() if term is None else frozenset((str(term.name),))


def filter_pairs(names: Iterable[str], pairs: Sequence[Pair]) -> dict[str, Pair]:
    """Return the columns that a filter means; the end's name counts where a rename gave the old one to another column."""
    pairs_by_name: dict[str, Pair] = {}
    for name in sorted(names):
        by_name = [
            pair
            for side in ("after", "before")
            for pair in pairs
            if getattr(pair, side) is not None and getattr(pair, side).name == name
        ]
        if not by_name:
            raise InvalidRulesError(f"The row filter names {name!r}, but neither side has that column.")
        pairs_by_name[name] = by_name[0]
    return pairs_by_name


def filter_sql(expression: e.BooleanExpression, pairs: Mapping[str, Pair], side: str) -> str:
    """Return SQL over the columns `b<i>` or `a<i>` of one side that is true for the rows to compare."""
    if isinstance(expression, e.And | e.Or):
        word = "AND" if isinstance(expression, e.And) else "OR"
        return f"({filter_sql(expression.left, pairs, side)} {word} {filter_sql(expression.right, pairs, side)})"
    if isinstance(expression, e.AlwaysTrue | e.AlwaysFalse):
        return "true" if isinstance(expression, e.AlwaysTrue) else "false"
    name = str(expression.term.name)
    bound, field = bind_to(expression, pairs[name], name, side)
    return _predicate_sql(bound, field, f"{side}{pairs[name].index}")


def bind_to(expression: e.BooleanExpression, pair: Pair, name: str, side: str) -> tuple[e.BooleanExpression, Field]:
    """Bind a predicate to one side's column; return it as it is asked of that column, and the column."""
    field = pair.before if side == "b" else pair.after
    if field is None:
        where = "before" if side == "b" else "after"
        raise InvalidRulesError(
            f"The row filter names {name!r}, which the side {where} does not have; filter by columns of both sides."
        )
    return _bind(expression, name, field), field


def _bind(expression: e.BooleanExpression, name: str, field: Field) -> e.BooleanExpression:
    if not isinstance(field.type, Primitive):
        raise InvalidRulesError(f"The row filter names {name!r}, which has parts; filter by a column of single values.")
    try:
        schema = Schema(NestedField(1, name, field.type.name, required=False))
        return bind(schema, fit_filter(expression, schema), case_sensitive=True)
    except UnfitFilterError as error:
        raise InvalidRulesError(f"The row filter does not fit {name!r}, a {field.type.name}: {error.reason}") from None
    except (ValueError, TypeError) as error:
        raise InvalidRulesError(f"The row filter does not fit {name!r}, a {field.type.name}: {error}") from None


def _predicate_sql(bound: e.BooleanExpression, field: Field, value: str) -> str:
    if isinstance(bound, e.AlwaysTrue | e.AlwaysFalse):
        # a literal that no value of the type reaches decides for every row
        return "true" if isinstance(bound, e.AlwaysTrue) else "false"
    if isinstance(bound, e.And | e.Or):
        word = "AND" if isinstance(bound, e.And) else "OR"
        return f"({_predicate_sql(bound.left, field, value)} {word} {_predicate_sql(bound.right, field, value)})"
    if isinstance(bound, e.BoundIsNull | e.BoundNotNull):
        return f"({value} IS {'NOT ' if isinstance(bound, e.BoundNotNull) else ''}NULL)"
    if isinstance(bound, e.BoundIsNaN | e.BoundNotNaN):
        # a bare isnan is asked of the file's minimum and maximum, which leave NaN out
        return f"NOT isnan({value})" if isinstance(bound, e.BoundNotNaN) else f"coalesce(isnan({value}), false)"
    if isinstance(bound, e.BoundStartsWith | e.BoundNotStartsWith):
        test = f"starts_with({value}, {_literal(field, bound.literal.value)})"
        return f"(NOT {test})" if isinstance(bound, e.BoundNotStartsWith) else test
    if isinstance(bound, e.BoundSetPredicate):
        values = ", ".join(sorted(_literal(field, member.value) for member in bound.literals))
        test = f"coalesce({value} IN ({values}), false)"
        return f"(NOT {test})" if isinstance(bound, e.BoundNotIn) else test
    sign = _COMPARED[type(bound)]
    test = f"{value} {sign} {_literal(field, bound.literal.value)}"
    is_float = isinstance(field.type, Primitive) and field.type.is_float
    return f"({test} AND NOT isnan({value}))" if is_float and sign in {"<", "<=", ">", ">="} else f"({test})"


def _literal(field: Field, value: Any) -> str:
    if isinstance(value, str):
        return literal(value)
    return constant(field.type, value)
