"""Writes a value that a transform holds as text that is the same in every process, or says that it cannot."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import inspect
import re
import types
import uuid
from collections import OrderedDict, defaultdict, deque
from pathlib import PurePath
from typing import Any

from jobs.transforms.declare import TableInput, TableOutput, Transform

MAX_DEPTH = 30
REPOSITORY = "<repository>"
"""Stands for the folder in which a commit happens to be checked out."""
_PLAIN = (
    bool, int, float, complex, bytes, type(None), type(Ellipsis), type(NotImplemented), decimal.Decimal, fractions.Fraction,
    dt.date, dt.time, dt.timedelta, dt.tzinfo, uuid.UUID, range, slice,
)  # fmt: skip
_LIBRARY_VALUES = ("pyarrow", "polars")
"""Libraries whose types and schemas are written in full by `repr`."""


class UnstableValueError(ValueError):
    """A value cannot be written the same way in every process."""


class ValueWriter:
    """Writes held values, and collects the files of the functions among them.

    Args:
        root: the folder of the repository.

    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._path: list[int] = []
        self.texts: list[str] = []
        """All texts among the values."""
        self.files: set[str] = set()
        """Files with code of the values, as their code objects name them."""

    def write_function(self, function: types.FunctionType) -> str:
        """Write what a function holds beside its code: its closure, defaults and attributes."""
        names = function.__code__.co_freevars
        cells = [_read_cell(cell) for cell in function.__closure__ or ()]
        attributes = [value for key, value in vars(function).items() if not key.startswith("__transform")]
        self.files.add(function.__code__.co_filename)
        held = [self.write(value) for value in (*cells, function.__defaults__, function.__kwdefaults__, *attributes)]
        return f"{function.__module__}.{function.__qualname__}{names}{held}"

    def write(self, value: Any) -> str:
        """Write any value.

        Raises:
            UnstableValueError: it cannot be written the same way in every process.

        """
        if id(value) in self._path:
            return "<itself>"
        if len(self._path) > MAX_DEPTH:
            raise UnstableValueError("values nested too deeply")
        self._path.append(id(value))
        try:
            return f"{_name_type(type(value))}:{self._write(value)}"
        finally:
            self._path.pop()

    def _write(self, value: Any) -> str:
        for kinds, write in _WRITERS:
            if isinstance(value, kinds):
                return str(write(self, value))
        if type(value).__module__.partition(".")[0] in _LIBRARY_VALUES:
            return self._write_library_value(value)
        if dataclasses.is_dataclass(value):
            return self._write_fields(value)
        if _is_plain_object(value):
            return self._write_object(value)
        raise UnstableValueError(
            f"a value of type {_name_type(type(value))}, which cannot be compared between processes"
        )

    def _write_text(self, value: str) -> str:
        self.texts.append(value)
        return repr(value.replace(self._root, REPOSITORY))

    def _write_path(self, value: PurePath) -> str:
        text = str(value)
        if value.is_absolute() and text != self._root and not text.startswith(f"{self._root}/"):
            raise UnstableValueError(f"the path {text}, which is outside of the repository")
        return self._write_text(text)

    def _write_items(self, items: Any) -> str:
        return f"[{', '.join(self.write(item) for item in items)}]"

    def _write_set(self, items: Any) -> str:
        return f"[{', '.join(sorted(self.write(item) for item in items))}]"

    def _write_mapping(self, value: Any) -> str:
        factory = self.write(value.default_factory) if isinstance(value, defaultdict) else ""
        return factory + self._write_items(value.items())

    def _write_enum(self, value: enum.Enum) -> str:
        return f"{value.name}={self.write(value.value)}"

    def _write_partial(self, value: functools.partial[Any]) -> str:
        return self._write_items((value.func, value.args, value.keywords))

    def _write_callable(self, value: Any) -> str:
        return self.write_function(value) if isinstance(value, types.FunctionType) else value.__qualname__

    def _write_method(self, value: types.MethodType) -> str:
        return self._write_items((value.__func__, value.__self__))

    def _write_class(self, value: type) -> str:
        module = inspect.getmodule(value)
        self.files.add(getattr(module, "__file__", None) or "")
        return _name_type(value)

    def _write_module(self, value: types.ModuleType) -> str:
        self.files.add(getattr(value, "__file__", None) or "")
        return value.__name__

    def _write_pattern(self, value: re.Pattern[Any]) -> str:
        return self._write_items((value.pattern, value.flags))

    def _write_transform(self, value: Transform) -> str:
        return self._write_items((value.function, value.inputs, value.outputs, value.profile))

    def _write_fields(self, value: Any) -> str:
        self._write_class(type(value))
        return self._write_items((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))

    def _write_object(self, value: Any) -> str:
        self._write_class(type(value))
        return self._write_items(sorted(vars(value).items()))

    def _write_library_value(self, value: Any) -> str:
        name = type(value).__name__
        if name == "Expr":
            return str(value.meta.serialize(format="json"))
        if (
            name in ("Schema", "Field")
            or name.endswith("Type")
            or "DataType" in {base.__name__ for base in type(value).__mro__}
        ):
            return repr(value)
        raise UnstableValueError(
            f"a value of type {_name_type(type(value))}, which cannot be compared between processes"
        )


_WRITERS: tuple[tuple[Any, Any], ...] = (
    (enum.Enum, ValueWriter._write_enum),
    (str, ValueWriter._write_text),
    (_PLAIN, lambda _, value: repr(value)),
    (PurePath, ValueWriter._write_path),
    ((tuple, list, deque), ValueWriter._write_items),
    ((set, frozenset), ValueWriter._write_set),
    ((dict, OrderedDict, types.MappingProxyType), ValueWriter._write_mapping),
    (functools.partial, ValueWriter._write_partial),
    ((types.FunctionType, types.BuiltinFunctionType), ValueWriter._write_callable),
    (types.MethodType, ValueWriter._write_method),
    (type, ValueWriter._write_class),
    (types.ModuleType, ValueWriter._write_module),
    (re.Pattern, ValueWriter._write_pattern),
    (Transform, ValueWriter._write_transform),
    ((TableInput, TableOutput), ValueWriter._write_object),
)


def _read_cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return NotImplemented


def _name_type(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_plain_object(value: Any) -> bool:
    """Return whether an object is nothing but its attributes."""
    reduce: Any = type(value).__reduce__
    return hasattr(value, "__dict__") and reduce is object.__reduce__
