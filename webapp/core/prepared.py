"""Query sets whose SQL is made once. For the few that every request of the catalog runs, making it costs more than running it.

A token with its user is read in 28 µs of processor instead of 280. For that this module rests on names that Django keeps for
itself: `tests/unit/test_private_names.py` pins them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from django.db import connection
from django.db.models import QuerySet
from django.db.models.query import ModelIterable, get_related_populators

Row = TypeVar("Row")
_STAND_INS: dict[type, Callable[[int], Any]] = {
    int: lambda n: 2_000_000_000 + n,
    str: lambda n: f"\x02argument {n}\x03",
    list: lambda n: [f"\x02argument {n}\x03"],
}
"""What no query set has for a value of its own; numbers that every column of whole numbers can hold, or Django asks nothing."""
_MARK = "%s"


class Prepared(Generic[Row]):
    """A query set as a function of its arguments, which it may only compare: `exact`, `gt` and their like.

    `build` is called once for each kind of database, with stand-ins of the given types; it returns a query set of models,
    `select_related` included, or of `values_list`. What is compared by `in` is a list of texts, of any length.
    """

    def __init__(self, build: Callable[..., QuerySet[Any, Row]], *kinds: type) -> None:
        self._build = build
        self._kinds = kinds
        self._compiled: dict[str, _Compiled] = {}

    def first(self, *arguments: object) -> Row | None:
        """Return the first row, or None."""
        return next(iter(self.all(*arguments)), None)

    def all(self, *arguments: object) -> list[Row]:
        """Return every row."""
        compiled = self._compiled.get(connection.vendor)
        if compiled is None:
            compiled = self._compiled[connection.vendor] = self._compile()
        with connection.cursor() as cursor:
            cursor.execute(*compiled.fill_in(arguments))
            rows = cursor.fetchall()
        return compiled.read_all(rows)

    def _compile(self) -> _Compiled:
        stand_ins = [_STAND_INS[kind](n) for n, kind in enumerate(self._kinds)]
        return _Compiled(self._build(*stand_ins), stand_ins)


class _Compiled:
    """The SQL of a query set, where its arguments go, and how its rows are read."""

    def __init__(self, rows: QuerySet[Any, Any], stand_ins: Sequence[object]) -> None:
        compiler = rows.query.get_compiler(connection=connection)
        sql, params = compiler.as_sql()
        places = {stand_in[0] if isinstance(stand_in, list) else stand_in: at for at, stand_in in enumerate(stand_ins)}
        self._params = [(places.get(value), value) for value in params]
        self._sql = sql
        self._lists = {at for at, stand_in in enumerate(stand_ins) if isinstance(stand_in, list)}
        select = compiler.select or []
        self._converters = compiler.get_converters([column for column, _sql, _alias in select])
        self._model = compiler.klass_info if issubclass(rows._iterable_class, ModelIterable) else None
        if self._model is not None:
            own = self._model["select_fields"]
            self._own = slice(own[0], own[-1] + 1)
            self._names = [select[n][0].target.attname for n in own]
            self._populators = get_related_populators(self._model, select, connection.alias)  # type: ignore[call-arg]  # Django 6's

    def fill_in(self, arguments: Sequence[Any]) -> tuple[str, list[Any]]:
        """Return the SQL and its values; an empty list is one of what no row has."""
        if not self._lists:
            return self._sql, [value if at is None else arguments[at] for at, value in self._params]
        text, *texts = self._sql.split(_MARK)
        sql, values = [text], list[Any]()
        for (at, stand_in), text in zip(self._params, texts, strict=True):
            value = stand_in if at is None else arguments[at]
            items = (list(value) or [stand_in]) if at in self._lists else [value]
            sql += [", ".join([_MARK] * len(items)), text]
            values += items
        return "".join(sql), values

    def read_all(self, rows: list[Any]) -> list[Any]:
        """Read rows as the query set would give them."""
        if self._model is None and not self._converters:
            return rows
        return [self._read(row) for row in rows]

    def _read(self, row: Sequence[Any]) -> Any:
        values = list(row)
        for at, (converters, column) in self._converters.items():
            for convert in converters:
                values[at] = convert(values[at], column, connection)
        if self._model is None:
            return tuple(values)
        instance = self._model["model"].from_db(connection.alias, self._names, values[self._own])
        for populator in self._populators:
            populator.populate(values, instance)
        return instance
