"""What comments are about, as far as a reader may know it: a row is named by its key, whose values may be hidden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.accounts.permissions import list_hidden
from webapp.comparisons.diffs.pictures import mask_picture
from webapp.datasets.permissions import see_keys

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import Comment

Anchor = Mapping[str, Any]


@dataclass(frozen=True)
class PlaceReader:
    """Who hears what comments are about."""

    principal: Principal | None
    """None is anybody, such as whoever a webhook tells."""
    unseen: frozenset[str] = frozenset()
    """Paths of datasets that they may not see at all: no row of these is named."""

    @classmethod
    def of(cls, principal: Principal, anchors: Iterable[Anchor | None]) -> PlaceReader:
        """Look up what somebody may not see, once for all of these places."""
        paths = {str(anchor["dataset"]) for anchor in anchors if anchor and anchor.get("key")}
        return cls(principal, frozenset(list_hidden(principal, sorted(paths))))

    def show(self, anchor: Anchor | None) -> Anchor | None:
        """Return a place with None for what is hidden in the key of its row, and the names of these columns as `masked`."""
        key = anchor.get("key") if anchor else None
        if not anchor or not isinstance(key, Mapping) or not key:
            return anchor
        path = str(anchor["dataset"])
        masked = list(key) if path in self.unseen else see_keys(self.principal, path).pick_hidden(key)
        if not masked:
            return anchor
        shown = {name: None if name in masked else value for name, value in key.items()}
        return {**anchor, "key": shown, "masked": masked}

    def show_picture(self, comment: Comment) -> Mapping[str, Any] | None:
        """Return the picture of the row that a comment is about, without what is hidden; None where there is none."""
        path = str((comment.anchor or {}).get("dataset"))
        if comment.picture is None or path in self.unseen:
            return None
        return mask_picture(comment.picture, see_keys(self.principal, path))


def is_of_column(anchor: Anchor) -> bool:
    """Return whether a comment is about a column of a dataset, in all of its rows."""
    return bool(anchor.get("dataset") and anchor.get("column") and not anchor.get("key"))


def word_key(anchor: Anchor) -> list[str]:
    """Say which row a place is, a part of the key each."""
    masked = anchor.get("masked", ())
    key = anchor["key"] if isinstance(anchor.get("key"), Mapping) else {}
    return [f"{name} hidden" if name in masked else f"{name} = {value}" for name, value in key.items()]
