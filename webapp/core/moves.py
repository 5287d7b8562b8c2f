"""The one way in which a row's state changes; see `webapp.core.states`."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from django.db import models

from webapp.core.states import State

Row_co = TypeVar("Row_co", bound=models.Model, covariant=True)


class Moves(models.QuerySet[Row_co], Generic[Row_co]):
    """Rows of a noun with a column `state`, which nothing but `move` writes."""

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
        return self.filter(state__in=sorted(earlier)).update(state=to, **values)
