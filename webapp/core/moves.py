"""The column that holds a row's state, and the one way in which it changes; see `webapp.core.states`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from django.apps import apps
from django.db import models

from webapp.core.states import State

Row_co = TypeVar("Row_co", bound=models.Model, covariant=True)
S = TypeVar("S", bound=State)

if TYPE_CHECKING:

    class _Column(models.CharField[S, S]): ...

else:

    class _Column(models.CharField, Generic[S]): ...


class StateField(_Column[S]):
    """A column of states, which rows give as members of the enum that its default is of.

    Migrations see a plain column: the states it may hold, and their words, are the enum's matter and change without one.
    """

    def __init__(self, *, default: S, **options: Any) -> None:
        self.kind = type(default)
        self._states: dict[str, S] = {state.value: state for state in self.kind}
        super().__init__(default=default, **{**options, "choices": self.kind.choices()})

    def from_db_value(self, value: Any, *_: object) -> Any:
        """Return the state; what only processes of another release know stays as it is."""
        return self._states.get(value, value)

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        """Describe the column as migrations see it."""
        name, _, arguments, options = super().deconstruct()
        del options["choices"]
        return name, "django.db.models.CharField", arguments, options


class Moves(models.QuerySet[Row_co], Generic[Row_co]):
    """Rows of a noun with a column of states, which nothing but `move` writes."""

    column: ClassVar = "state"

    def move(self, *, to: State, was: State | None = None, **values: Any) -> int:
        """Bring those rows on that stand one step before a state; a row that stands elsewhere stays as it is.

        Args:
            to: the state.
            was: the only state from which to come, where several lead there and this act belongs to one of them.
            values: further columns, written with it.

        Returns:
            How many rows moved.

        Raises:
            ValueError: no step leads there from `was`.

        """
        if was is not None and was not in to.earlier:
            message = f"Nothing that is {was} becomes {to}."
            raise ValueError(message)
        earlier = to.earlier if was is None else {was}
        return self.filter(**{f"{self.column}__in": sorted(earlier)}).update(**{self.column: to}, **values)

    def bring(self, row: models.Model, *, to: State, **values: Any) -> bool:
        """Move one row and show it as it then is; one that is not stored yet is stored in that state.

        Returns:
            Whether it moved; one that stands elsewhere stays as it is.

        """
        if not row._state.adding and not self.filter(pk=row.pk).move(to=to, **values):
            return False
        for name, value in {self.column: to, **values}.items():
            setattr(row, name, value)
        if row._state.adding:
            row.save()
        return True


def list_nouns() -> dict[str, type[State]]:
    """Return the states of every noun that has them, by its name."""
    return {
        str(model._meta.verbose_name): field.kind
        for model in apps.get_models()
        for field in model._meta.fields
        if isinstance(field, StateField)
    }
