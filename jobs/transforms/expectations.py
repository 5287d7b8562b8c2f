"""What must hold of an output: `from transforms import expectations as E`.

Two kinds, freely combined by `E.all(...)`, `E.any(...)` and `E.negate(...)`:

- of rows: `E.col("delay").gte(0)`, `.gt .lte .lt .equals .not_equals .in_range .non_null .is_in .rlike`, or short
  `E.non_null("a", "b")`, `E.in_range("delay", 0, 1440)`, `E.in_set("origin", ["JFK"])`, `E.regex("tailnum", "N.*")`. As in
  SQL checks, a NULL passes every comparison; ask for `non_null` as well where it must not.
- of the whole dataset: `E.primary_key("day", "carrier")` (unique and without NULL), `E.unique("id")` (NULLs apart),
  `E.row_count(min=1)`, `E.count().gt(0)`, `E.col("a").has_type("long")`, `E.column_type("a", "long")`.

An expectation is data. `evaluate` asks a `Source` for counts and examples in SQL whose words DuckDB and Spark share, so
that the same check runs embedded or on a cluster.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from jobs.protocol import fold_column
from jobs.transforms.errors import DeclarationError

Literal = str | int | float | bool | decimal.Decimal | dt.date | dt.datetime
__all__ = [
    "Column",
    "Expectation",
    "Source",
    "Verdict",
    "all",
    "any",
    "col",
    "column_type",
    "count",
    "evaluate",
    "in_range",
    "in_set",
    "negate",
    "non_null",
    "primary_key",
    "regex",
    "row_count",
    "unique",
]
_builtin_all, _builtin_any = all, any


class Source(Protocol):
    """Data to check: answers SQL over one relation called `{data}`."""

    quote: str
    same: str
    """The null-safe comparison: `IS NOT DISTINCT FROM`, in Spark `<=>`."""
    masked: Collection[str]
    """Columns, as `fold_column` writes them, whose values are not said: what is said is for all who see the build."""

    def text(self, value: str) -> str:
        """Return a text as an SQL literal."""
        ...

    def matches(self, column: str, pattern: str) -> str:
        """Return the SQL that says whether some part of a column (quoted already) matches a regular expression."""
        ...

    def query(self, sql: str) -> list[dict[str, object]]:
        """Run a query; `{data}` in it stands for the rows to check."""
        ...

    def types(self) -> Mapping[str, str]:
        """Return the Iceberg type of each column."""
        ...


@dataclass(frozen=True)
class Verdict:
    """Whether it holds, and one sentence with counts."""

    passed: bool
    message: str


class Expectation:
    """Something that must hold. Subclasses either judge rows or the whole dataset."""

    def columns(self) -> frozenset[str]:
        """Return the columns it reads."""
        raise NotImplementedError

    def judge(self, source: Source) -> Verdict:
        """Ask the source and decide."""
        raise NotImplementedError

    def describe(self) -> str:
        """Say it in words."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.describe()


def evaluate(expectation: Expectation, source: Source) -> Verdict:
    """Decide whether an expectation holds; a column that is not there fails it by name."""
    missing = sorted(expectation.columns() - set(source.types()))
    if missing:
        return Verdict(passed=False, message=f"there is no column {missing[0]!r}")
    return expectation.judge(source)


# --- of rows --------------------------------------------------------------------------------------


class RowExpectation(Expectation):
    """Holds when every row satisfies a condition that is not false."""

    def condition(self, source: Source) -> str:
        """Return SQL that is true, false or NULL for a row."""
        raise NotImplementedError

    def judge(self, source: Source) -> Verdict:
        """Count the rows where it is false, and show one."""
        broken = f"({self.condition(source)}) {source.same} FALSE"
        counts = source.query(
            f"SELECT count(*) AS total, sum(CASE WHEN {broken} THEN 1 ELSE 0 END) AS bad FROM {{data}}"
        )
        total, bad = _number(counts[0]["total"]), _number(counts[0]["bad"])
        if bad == 0:
            return Verdict(passed=True, message=f"{total:,} rows")
        names = dict.fromkeys((*list(source.types())[:3], *sorted(self.columns())))
        listed = ", ".join(_quoted(source, name) for name in names)
        shown = source.query(f"SELECT {listed} FROM {{data}} WHERE {broken} LIMIT 1")
        return Verdict(passed=False, message=f"{_rows(bad)} of {total:,}, first {_show(shown[0], source)}")


@dataclass(frozen=True, repr=False)
class _Comparison(RowExpectation):
    column: str
    operator: str
    value: Literal
    words: str

    def columns(self) -> frozenset[str]:
        return frozenset({self.column})

    def condition(self, source: Source) -> str:
        return f"{_quoted(source, self.column)} {self.operator} {_literal(source, self.value)}"

    def describe(self) -> str:
        return f"{self.column} {self.words} {self.value!r}"


@dataclass(frozen=True, repr=False)
class _NonNull(RowExpectation):
    column: str

    def columns(self) -> frozenset[str]:
        return frozenset({self.column})

    def condition(self, source: Source) -> str:
        return f"{_quoted(source, self.column)} IS NOT NULL"

    def describe(self) -> str:
        return f"{self.column} is not null"


@dataclass(frozen=True, repr=False)
class _InSet(RowExpectation):
    column: str
    values: tuple[Literal, ...]

    def columns(self) -> frozenset[str]:
        return frozenset({self.column})

    def condition(self, source: Source) -> str:
        return f"{_quoted(source, self.column)} IN ({', '.join(_literal(source, value) for value in self.values)})"

    def describe(self) -> str:
        return f"{self.column} is one of {', '.join(map(repr, self.values))}"


@dataclass(frozen=True, repr=False)
class _Matches(RowExpectation):
    column: str
    pattern: str

    def columns(self) -> frozenset[str]:
        return frozenset({self.column})

    def condition(self, source: Source) -> str:
        return source.matches(_quoted(source, self.column), self.pattern)

    def describe(self) -> str:
        return f"{self.column} matches {self.pattern!r}"


@dataclass(frozen=True, repr=False)
class _RowCombination(RowExpectation):
    word: str
    parts: tuple[RowExpectation, ...]

    def columns(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.columns() for part in self.parts))

    def condition(self, source: Source) -> str:
        joined = f" {self.word} ".join(f"({part.condition(source)})" for part in self.parts)
        return f"NOT {joined}" if self.word == "NOT" else joined

    def describe(self) -> str:
        if self.word == "NOT":
            return f"not ({self.parts[0].describe()})"
        return f" {self.word.lower()} ".join(part.describe() for part in self.parts)


# --- of the whole dataset -------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Key(Expectation):
    names: tuple[str, ...]
    nulls_allowed: bool

    def columns(self) -> frozenset[str]:
        return frozenset(self.names)

    def judge(self, source: Source) -> Verdict:
        names = [_quoted(source, name) for name in self.names]
        listed, has_null = ", ".join(names), " OR ".join(f"{name} IS NULL" for name in names)
        if not self.nulls_allowed:
            null_counts = source.query(f"SELECT count(*) AS bad FROM {{data}} WHERE {has_null}")
            if nulls := _number(null_counts[0]["bad"]):
                return Verdict(passed=False, message=f"{_rows(nulls)} with NULL in {', '.join(self.names)}")
        groups = f"SELECT {listed}, count(*) AS copies FROM {{data}} WHERE NOT ({has_null}) GROUP BY {listed}"
        counts = source.query(
            f"SELECT count(*) AS distinct_keys, sum(CASE WHEN copies > 1 THEN 1 ELSE 0 END) AS bad FROM ({groups}) AS g"
        )
        bad = _number(counts[0]["bad"])
        if bad == 0:
            return Verdict(passed=True, message=f"{_number(counts[0]['distinct_keys']):,} distinct keys")
        shown = source.query(f"{groups} HAVING count(*) > 1 ORDER BY {listed} LIMIT 1")
        many = "1 key occurs" if bad == 1 else f"{bad:,} keys occur"
        return Verdict(passed=False, message=f"{many} more than once, first {_show(shown[0], source)}")

    def describe(self) -> str:
        return f"{', '.join(self.names)} {'are' if len(self.names) > 1 else 'is'} unique" + (
            "" if self.nulls_allowed else " and not null"
        )


@dataclass(frozen=True, repr=False)
class _RowCount(Expectation):
    least: int | None
    most: int | None

    def columns(self) -> frozenset[str]:
        return frozenset()

    def judge(self, source: Source) -> Verdict:
        total = _number(source.query("SELECT count(*) AS total FROM {data}")[0]["total"])
        passed = (self.least is None or total >= self.least) and (self.most is None or total <= self.most)
        return Verdict(passed=passed, message=_rows(total))

    def describe(self) -> str:
        bounds = [f"at least {self.least:,}"] if self.least is not None else []
        bounds += [f"at most {self.most:,}"] if self.most is not None else []
        return f"{' and '.join(bounds)} rows"


@dataclass(frozen=True, repr=False)
class _HasType(Expectation):
    column: str
    type: str

    def columns(self) -> frozenset[str]:
        return frozenset({self.column})

    def judge(self, source: Source) -> Verdict:
        actual = source.types()[self.column]
        return Verdict(passed=actual == self.type, message=f"{self.column} is {actual}")

    def describe(self) -> str:
        return f"{self.column} has type {self.type}"


@dataclass(frozen=True, repr=False)
class _Combination(Expectation):
    """`all`, `any` or `negate` over expectations of which at least one is of the whole dataset."""

    word: str
    parts: tuple[Expectation, ...]

    def columns(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.columns() for part in self.parts))

    def judge(self, source: Source) -> Verdict:
        verdicts = [part.judge(source) for part in self.parts]
        if self.word == "NOT":
            return Verdict(passed=not verdicts[0].passed, message=verdicts[0].message)
        passed = (_builtin_all if self.word == "AND" else _builtin_any)(verdict.passed for verdict in verdicts)
        messages = [verdict.message for verdict in verdicts if verdict.passed == passed]
        return Verdict(passed=passed, message="; ".join(messages))

    def describe(self) -> str:
        if self.word == "NOT":
            return f"not ({self.parts[0].describe()})"
        return f" {self.word.lower()} ".join(part.describe() for part in self.parts)


# --- the words that users write -------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """`E.col("delay")`: start of an expectation of one column."""

    name: str

    def non_null(self) -> Expectation:
        """Expect no NULL."""
        return _NonNull(self.name)

    def gt(self, value: Literal) -> Expectation:
        """Expect values greater than this."""
        return _Comparison(self.name, ">", value, "is greater than")

    def gte(self, value: Literal) -> Expectation:
        """Expect values greater than this, or equal."""
        return _Comparison(self.name, ">=", value, "is at least")

    def lt(self, value: Literal) -> Expectation:
        """Expect values less than this."""
        return _Comparison(self.name, "<", value, "is less than")

    def lte(self, value: Literal) -> Expectation:
        """Expect values less than this, or equal."""
        return _Comparison(self.name, "<=", value, "is at most")

    def equals(self, value: Literal) -> Expectation:
        """Expect this value in every row."""
        return _Comparison(self.name, "=", value, "is")

    def not_equals(self, value: Literal) -> Expectation:
        """Expect this value in no row."""
        return _Comparison(self.name, "<>", value, "is not")

    def in_range(self, low: Literal, high: Literal) -> Expectation:
        """Expect values between two, both included."""
        return _RowCombination("AND", (self._row(self.gte(low)), self._row(self.lte(high))))

    def is_in(self, *values: Literal) -> Expectation:
        """Expect one of these values."""
        return in_set(self.name, values)

    def rlike(self, pattern: str) -> Expectation:
        """Expect that some part matches a regular expression."""
        return regex(self.name, pattern)

    def has_type(self, type_name: str) -> Expectation:
        """Expect an Iceberg type."""
        return column_type(self.name, type_name)

    def unique(self) -> Expectation:
        """Expect no value twice; NULLs do not count."""
        return _Key((self.name,), nulls_allowed=True)

    @staticmethod
    def _row(expectation: Expectation) -> RowExpectation:
        assert isinstance(expectation, RowExpectation)  # noqa: S101 - both callers build one
        return expectation


@dataclass(frozen=True)
class Count:
    """`E.count()`: start of an expectation of the number of rows."""

    def gt(self, value: int) -> Expectation:
        """Expect more rows than this."""
        return _RowCount(value + 1, None)

    def gte(self, value: int) -> Expectation:
        """Expect at least so many rows."""
        return _RowCount(value, None)

    def lt(self, value: int) -> Expectation:
        """Expect fewer rows than this."""
        return _RowCount(None, value - 1)

    def lte(self, value: int) -> Expectation:
        """Expect at most so many rows."""
        return _RowCount(None, value)

    def equals(self, value: int) -> Expectation:
        """Expect exactly so many rows."""
        return _RowCount(value, value)


def col(name: str) -> Column:
    """Start an expectation of one column."""
    return Column(name)


def count() -> Count:
    """Start an expectation of the number of rows."""
    return Count()


def primary_key(*columns: str) -> Expectation:
    """Expect the columns together to be unique and none of them NULL."""
    return _Key(_named(columns, "primary_key"), nulls_allowed=False)


def unique(*columns: str) -> Expectation:
    """Expect the columns together to be unique among the rows where none of them is NULL."""
    return _Key(_named(columns, "unique"), nulls_allowed=True)


def non_null(*columns: str) -> Expectation:
    """Expect no NULL in any of the columns."""
    parts = tuple(_NonNull(name) for name in _named(columns, "non_null"))
    return parts[0] if len(parts) == 1 else _RowCombination("AND", parts)


def in_range(column: str, low: Literal, high: Literal) -> Expectation:
    """Expect values between two bounds, both included."""
    return col(column).in_range(low, high)


def in_set(column: str, values: Iterable[Literal]) -> Expectation:
    """Expect one of these values."""
    # the order of a set is not the same in every process
    listed = tuple(sorted(values, key=repr) if isinstance(values, set | frozenset) else values)
    if not listed:
        raise DeclarationError(f"in_set({column!r}): name at least one value")
    return _InSet(column, listed)


def regex(column: str, pattern: str) -> Expectation:
    """Expect some part of the text to match a regular expression."""
    return _Matches(column, pattern)


def row_count(min: int | None = None, max: int | None = None) -> Expectation:
    """Expect a number of rows."""
    if min is None and max is None:
        raise DeclarationError("row_count: give min, max or both")
    return _RowCount(min, max)


def column_type(column: str, type_name: str) -> Expectation:
    """Expect an Iceberg type: int, long, double, string, date, timestamp, decimal(10, 2) and so on."""
    return _HasType(column, str(type_name))


def all(*expectations: Expectation) -> Expectation:  # noqa: A001 - Foundry's name
    """Expect every one of them, row by row where all speak of rows."""
    return _combine("AND", expectations)


def any(*expectations: Expectation) -> Expectation:  # noqa: A001 - Foundry's name
    """Expect at least one of them, row by row where all speak of rows."""
    return _combine("OR", expectations)


def negate(expectation: Expectation) -> Expectation:
    """Expect the opposite, row by row where it speaks of rows."""
    return _combine("NOT", (expectation,))


def _combine(word: str, parts: Sequence[Expectation]) -> Expectation:
    if not parts:
        raise DeclarationError("all() and any() need at least one expectation")
    for part in parts:
        if not isinstance(part, Expectation):
            raise DeclarationError(f"{part!r} is not an expectation")
    rows = tuple(part for part in parts if isinstance(part, RowExpectation))
    return _RowCombination(word, rows) if len(rows) == len(parts) else _Combination(word, tuple(parts))


def _named(columns: Sequence[str], what: str) -> tuple[str, ...]:
    if not columns or not _builtin_all(isinstance(name, str) and name for name in columns):
        raise DeclarationError(f"{what}: name at least one column")
    return tuple(columns)


# --- words of SQL ---------------------------------------------------------------------------------


def _quoted(source: Source, name: str) -> str:
    return f"{source.quote}{name.replace(source.quote, source.quote * 2)}{source.quote}"


def _literal(source: Source, value: Literal) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | decimal.Decimal):
        return str(value)
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return source.text(value)
    raise DeclarationError(f"{value!r} cannot stand in an expectation")


def _number(value: object) -> int:
    return int(str(value)) if value is not None else 0


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


def _show(row: Mapping[str, object], source: Source) -> str:
    shown = {name: "NULL" if value is None else value for name, value in row.items() if name != "copies"}
    shown |= dict.fromkeys((name for name in shown if fold_column(name) in source.masked), "hidden")
    return ", ".join(f"{name} = {value}" for name, value in shown.items())
