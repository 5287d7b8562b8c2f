"""What a list is filtered by: one value that the API, the page and the query of a list share.

Each filter is one field, which says what it looks up, what the API tells of it, and where it is offered. What looks up
nothing is left to the query of the list.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Offer(NamedTuple):
    """What is known of a filter beside its name."""

    lookup: str = ""
    """What of a row its value is compared with, in Django's words; empty: the query of the list sees to it."""
    default: Any = ""
    """What it is where nobody asks for it."""
    words: str = ""
    """What the API tells of it."""
    choices: Sequence[str] = ()
    """All values that it has; none: any text."""
    in_api: bool = True
    on_page: bool = True


def offer(lookup: str = "", *, default: Any = "", **more: Any) -> Any:
    """Return a filter as a field of its list's value."""
    return field(default=default, metadata={"offer": Offer(lookup, default, **more)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilter:
    """What somebody wants of a list; without any filter all of it."""

    @classmethod
    def list_offers(cls) -> dict[str, Offer]:
        """Return every filter's name with what is known of it."""
        return {item.name: item.metadata["offer"] for item in fields(cls)}

    @classmethod
    def read_api(cls, parameters: Mapping[str, str]) -> Self:
        """Return what a request of the API asks for."""
        offers = cls.list_offers().items()
        return cls(**{name: parameters.get(name) or offered.default for name, offered in offers if offered.in_api})

    @classmethod
    def read_page(cls, parameters: Mapping[str, str]) -> Self:
        """Return what the address of a page asks for, without the spaces that people type around it."""
        offers = cls.list_offers().items()
        return cls(
            **{name: parameters.get(name, "").strip() or offered.default for name, offered in offers if offered.on_page}
        )

    @property
    def is_any(self) -> bool:
        """Whether nothing is asked for."""
        return self == type(self)()

    @property
    def lookups(self) -> dict[str, Any]:
        """What to ask of the rows, by the filters that look something up."""
        values = ((offered.lookup, getattr(self, name)) for name, offered in self.list_offers().items())
        return {lookup: value for lookup, value in values if lookup and value}
