"""Foreign keys over columns that are there anyway, as a repository and the hash of a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.db import models
from django.db.models.fields.related_descriptors import ForwardManyToOneDescriptor

Row = TypeVar("Row", bound=models.Model)

if TYPE_CHECKING:

    class _Key(models.ForeignObject[Row, Row | None]): ...

    _Descriptor = ForwardManyToOneDescriptor[models.ForeignObject[models.Model, models.Model | None]]
else:

    class _Key(models.ForeignObject, Generic[Row]): ...

    _Descriptor = ForwardManyToOneDescriptor


class _Accessor(_Descriptor):
    """Gives the row, or None where there is none."""

    def __get__(self, row: models.Model | None, cls: type[models.Model] | None = None) -> Any:
        if row is not None:
            self._forget_former(row)
        return super().__get__(row, cls)

    def get_object(self, row: models.Model) -> Any:
        return self.get_queryset(instance=row).filter(self.field.get_reverse_related_filter(row)).first()

    def _forget_former(self, row: models.Model) -> None:
        """Forget a row that the columns no longer name: Django does not notice that they are written."""
        target = self.field.get_cached_value(row, default=None)
        if target is not None and self.field.get_foreign_related_value(target) != self.field.get_local_related_value(
            row
        ):
            self.field.delete_cached_value(row)


class NaturalKey(_Key[Row]):
    """A foreign key that adds no column and no constraint: the row that it leads to may be missing, and is None then.

    Processes of the release before, which know nothing of it, write it with the columns that it is made of. Migrations
    see Django's own field.

    Rows that lead nowhere are found by `<key>__pk__isnull`: of the key itself Django only asks whether its columns are NULL.
    """

    forward_related_accessor_class = _Accessor

    def __init__(self, to: str, *, from_fields: Sequence[str], to_fields: Sequence[str], **options: Any) -> None:
        options |= {"null": True, "editable": False, "serialize": False, "on_delete": models.DO_NOTHING}
        super().__init__(to, from_fields=from_fields, to_fields=to_fields, **options)

    def deconstruct(self) -> tuple[str, str, Sequence[Any], dict[str, Any]]:
        """Describe the field as migrations see it."""
        name, _, arguments, options = super().deconstruct()
        return name, "django.db.models.ForeignObject", arguments, options
