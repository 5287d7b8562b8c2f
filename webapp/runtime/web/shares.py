"""How much of what all share one person may take at a time; in each web process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from webapp.core.errors import TooManyRequests

RETRY_S = 5
UNTIL_SENT = "tributary.until_sent"
"""In the scope of a stream, an ExitStack: what it holds is given back when the stream has ended, however it does."""


class Share:
    """A number of places for each person; used by the event loop alone."""

    def __init__(self, places: int, *, what: str) -> None:
        """Give each person so many; `what` names them in a refusal."""
        self._places = places
        self._what = what
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taking(self, person: str) -> Iterator[None]:
        """Take a place of a person's share during the block.

        Raises:
            TooManyRequests: all of them are taken; nothing was done.

        """
        if self._taken[person] >= self._places:
            message = (
                f"{self._places} {self._what} of {person} are under way on this server, as many as one person may have: "
                "nothing was done. Try again when one has ended."
            )
            raise TooManyRequests(message, code="too_many_at_once", retry_after=RETRY_S)
        self._taken[person] += 1
        try:
            yield
        finally:
            self._taken[person] -= 1
            if not self._taken[person]:
                del self._taken[person]


uploads = Share(8, what="uploads and long requests")
git = Share(8, what="clones, fetches and pushes")
streams = Share(50, what="event streams")
