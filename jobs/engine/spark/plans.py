"""What the columns of a Spark frame are made of, as its analysed plan tells, which Spark Connect gives as text alone.

Each column has a number there, in whatever it is read, renamed or computed: `Project [(a#3L * 10) AS tens#5L]`. So the
columns that an expression names are certain. A plan with anything that is not known here says nothing at all: an
operator, a name that is no word, a sign that may belong to a text, or a number that none of the columns below has. What
is left is a text in the code that happens to be the name of a column with the number that Spark gives it in that run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

MOST_DEPTH = 300
"""Operators over one another; a plan that is deeper says nothing."""
MOST_SOURCES = 10_000
"""Of all columns together."""
_TITLE = "== Analyzed Logical Plan =="
_LINE = re.compile(r"(?P<lead>(?:[: ]  )*)(?P<mark>[+:]- )?(?P<text>\S.*)")
_WORD = re.compile(r"(\w+)")
_COLUMN = re.compile(r"(\w+)#(\d+)L?")
_ALIAS = re.compile(r"(?P<expression>.*) AS (?P<name>\w+)#(?P<number>\d+)L?")
_SIGN = re.compile(r"(?:(?P<name>\w+)|\))#(?P<number>\d+)L?(?!\w)")
"""A column that an expression names, or a number that Spark has given to the result of a function."""
_RELATION = re.compile(r"RelationV2\[(?P<columns>[^\[\]]*)\] (?P<table>\S+)( .*)?")
_VIEW = re.compile(r"View \(`\w+`, \[(?P<columns>[^\[\]]*)\]\)")
_OPENING = {"(": ")", "[": "]", "{": "}"}
_SAME = frozenset(
    {
        *("Deduplicate", "Distinct", "Filter", "GlobalLimit", "LocalLimit", "Offset", "RebalancePartitions"),
        *("Repartition", "RepartitionByExpression", "ResolvedHint", "Sample", "Sort", "SubqueryAlias"),
    }
)
"""Operators that leave columns as they are."""
_JOINS = frozenset({"Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter"})
_HALF_JOINS = frozenset({"LeftSemi", "LeftAnti"})


class TableColumn(NamedTuple):
    """A column of a table that a plan reads."""

    table: str
    """As the plan writes it, with the catalog."""
    column: str


class _PlanColumn(NamedTuple):
    name: str
    number: str
    sources: frozenset[TableColumn]


class _UnknownPlan(Exception):
    """Something in a plan is not known."""


@dataclass
class _Operator:
    text: str
    below: list[_Operator] = field(default_factory=list)


def find_sources(session: SparkSession, frame: Any) -> dict[str, frozenset[TableColumn]]:
    """Return what each column of a frame is made of; nothing where that is not known.

    Spark analyses the frame, reads nothing and plans no reading: of no rows there is nothing to plan.
    """
    import grpc
    from pyspark.errors import PySparkException

    setting = "spark.sql.debug.maxToStringFields"
    try:
        before = session.conf.get(setting, None)
        session.conf.set(setting, str(2**31 - 1))
        try:
            text = frame.limit(0)._explain_string(extended=True)
            return read_sources(text, frame.columns)
        finally:
            if before is None:
                session.conf.unset(setting)
            else:
                session.conf.set(setting, before)
    except (PySparkException, grpc.RpcError):
        return {}  # the rows are written by now, and the job's result does not hang on this


def group_sources(sources: Iterable[TableColumn], paths: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return columns by the path of their table."""
    grouped: dict[str, tuple[str, ...]] = {}
    for source in sorted(sources):
        path = paths[source.table]
        grouped[path] = (*grouped.get(path, ()), source.column)
    return grouped


def read_sources(text: str, names: Sequence[str]) -> dict[str, frozenset[TableColumn]]:
    """Return what each column of an explained frame is made of; nothing where that is not known.

    Args:
        text: what Spark explains, extended.
        names: the columns of the frame, in their order.

    """
    try:
        columns = _list_columns(_read_plan(text))
    except _UnknownPlan:
        return {}
    is_all = [column.name for column in columns] == list(names) and len(set(names)) == len(names)
    sources = {column.name: column.sources for column in columns}
    return sources if is_all and sum(map(len, sources.values())) <= MOST_SOURCES else {}


def _read_plan(text: str) -> _Operator:
    """Read the tree of operators: each below another one, by how far it is moved to the right."""
    _before, title, rest = text.partition(f"{_TITLE}\n")
    # its first line is the schema
    lines = rest.partition("\n== ")[0].rstrip("\n").split("\n")[1:]
    if not title or not lines:
        raise _UnknownPlan
    path: list[_Operator] = []
    for line in lines:
        parts = _LINE.fullmatch(line)
        if parts is None or bool(parts["mark"]) != bool(path):
            raise _UnknownPlan
        depth = len(parts["lead"]) // 3 + 1 if path else 0
        if depth > min(len(path), MOST_DEPTH):
            raise _UnknownPlan
        operator = _Operator(parts["text"])
        if path:
            path[depth - 1].below.append(operator)
        path[depth:] = [operator]
    return path[0]


def _list_columns(operator: _Operator) -> list[_PlanColumn]:
    """Return the columns that an operator gives."""
    below = [_list_columns(other) for other in operator.below]
    kind = _find_kind(operator.text)
    if kind == "RelationV2" and not below:
        return _read_relation(operator.text)
    if kind == "Union" and below:
        return _unite(below)
    if kind == "Join" and len(below) == 2:
        return _join(operator.text, *below)
    if len(below) != 1:
        raise _UnknownPlan
    (columns,) = below
    if kind in _SAME or (kind == "View" and _is_plain_view(operator.text, columns)):
        return columns
    lists = _read_lists(operator.text.removeprefix(kind).strip())
    numbered = {column.number: column for column in columns}
    if kind == "Project" and len(lists) == 1:
        return [_read_item(item, numbered) for item in lists[0]]
    if kind == "Aggregate" and len(lists) == 2:
        return [_read_item(item, numbered) for item in lists[1]]
    if kind == "Window" and len(lists) in (2, 3):
        return [*columns, *(_read_item(item, numbered) for item in lists[0])]
    raise _UnknownPlan


def _is_plain_view(text: str, below: Sequence[_PlanColumn]) -> bool:
    """Return whether a view gives the columns below it as they are; another one may give them other names or types."""
    parts = _VIEW.fullmatch(text)
    shown = [_COLUMN.fullmatch(column) for column in parts["columns"].split(", ")] if parts else []
    return [column and (column[1], column[2]) for column in shown] == [(column.name, column.number) for column in below]


def _find_kind(text: str) -> str:
    word = _WORD.match(text)
    return word[1] if word else ""


def _read_relation(text: str) -> list[_PlanColumn]:
    parts = _RELATION.fullmatch(text)
    columns = [_COLUMN.fullmatch(column) for column in parts["columns"].split(", ")] if parts else []
    if parts is None or None in columns:
        raise _UnknownPlan
    table = parts["table"].replace("`", "")
    return [
        _PlanColumn(column[1], column[2], frozenset({TableColumn(table, column[1])}))
        for column in columns
        if column is not None
    ]


def _unite(below: Sequence[Sequence[_PlanColumn]]) -> list[_PlanColumn]:
    """Return the columns of a union: the first one's, made of what stands in the same place of all."""
    if len({len(columns) for columns in below}) != 1:
        raise _UnknownPlan
    return [
        column._replace(sources=frozenset().union(*(others[place].sources for others in below)))
        for place, column in enumerate(below[0])
    ]


def _join(text: str, left: list[_PlanColumn], right: list[_PlanColumn]) -> list[_PlanColumn]:
    kind = _find_kind(text.removeprefix("Join "))
    if kind in _HALF_JOINS:
        return left
    if kind not in _JOINS:
        raise _UnknownPlan
    return [*left, *right]


def _read_item(item: str, below: Mapping[str, _PlanColumn]) -> _PlanColumn:
    """Read one column that an operator gives: one from below, or something that has been computed and named."""
    column, alias = _COLUMN.fullmatch(item), _ALIAS.fullmatch(item)
    if column is not None:
        return _PlanColumn(column[1], column[2], _list_sources(item, below))
    if alias is None:
        raise _UnknownPlan
    return _PlanColumn(alias["name"], alias["number"], _list_sources(alias["expression"], below))


def _list_sources(expression: str, below: Mapping[str, _PlanColumn]) -> frozenset[TableColumn]:
    signs = list(_SIGN.finditer(expression))
    if len(signs) != expression.count("#"):
        raise _UnknownPlan
    sources: set[TableColumn] = set()
    for sign in signs:
        column = below.get(sign["number"])
        if sign["name"] is None:
            continue
        # Spark writes a column as the code does, whatever its capitals
        if column is None or column.name.casefold() != sign["name"].casefold():
            raise _UnknownPlan
        sources |= column.sources
    return frozenset(sources)


def _read_lists(text: str) -> list[list[str]]:
    """Read `[a, f(b, c) AS d], [e]`."""
    lists: list[list[str]] = []
    closing: list[str] = []
    item = ""
    for sign in text:
        if not closing:
            if sign == "[":
                lists.append([])
                closing.append("]")
            elif sign not in ", ":
                raise _UnknownPlan
            continue
        if sign in _OPENING:
            closing.append(_OPENING[sign])
        elif sign in _OPENING.values() and closing.pop() != sign:
            raise _UnknownPlan
        if not closing or (len(closing) == 1 and sign == ","):
            lists[-1].append(item.strip())
            item = ""
        else:
            item += sign
    if closing:
        raise _UnknownPlan
    return [[] if items == [""] else items for items in lists]
