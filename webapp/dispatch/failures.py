"""What an attempt meets that nobody foresaw, said by name: whoever runs the attempt ends it at once, or puts it back.

Without this its lease would run out, and the sweep would say that the worker died, which is not true, and try it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from webapp.core.databases import BUSY, keep_trying
from webapp.core.errors import AppError, Broken, Unavailable
from webapp.core.failures import FULL

if TYPE_CHECKING:
    from webapp.dispatch.leases import Leases

logger = logging.getLogger(__name__)
PATIENCE_S = 60.0
"""So long the end of an attempt is written again and again while the database is busy."""
MOST_SAID = 500
"""Signs of what an error says; one that quotes a hostile answer may be as long as that."""


class PartLost(Unavailable):
    """A part died or failed under an attempt, which is tried once more and not again and again."""


@contextmanager
def named_failures(what: str) -> Iterator[None]:
    """Turn every failure into a refusal that can be stored and shown; refusals pass as they are.

    Args:
        what: what came to nothing, as a sentence begins that ends with the failure.

    Raises:
        Unavailable: what passes by itself: a database that is busy or away, a full disk.
        PartLost: the machine failed.
        Broken: anything else.

    """
    try:
        yield
    except AppError:
        raise
    except BUSY as error:
        message = f"The database is busy or away ({_describe(error)}). It is tried again."
        raise Unavailable(message) from error
    except OSError as error:
        if error.errno in FULL:
            message = f"The disk is full: {_describe(error)}. It begins when there is room."
            raise Unavailable(message) from error
        message = f"{what}: {_describe(error)}"
        raise PartLost(message) from error
    except Exception as error:
        message = f"{what}: {_describe(error)}"
        broken = Broken(message)
        # In place of the error, which may say more than a log should hold.
        logger.exception("%s", what, exc_info=broken.with_traceback(error.__traceback__))
        raise broken from error


@contextmanager
def settled_failures(
    what: str,
    held: Leases[Any],
    *,
    give_up: Callable[[AppError], object],
    put_back: Callable[[], int] | None = None,
) -> Iterator[None]:
    """Bring an attempt that fails to its end, or let its row wait again; the end is written as long as a database is busy.

    Args:
        what: what came to nothing, as a sentence begins that ends with the failure.
        held: the row, as the attempt has it.
        give_up: writes that nothing more comes of it.
        put_back: lets it wait again for what passes by itself, where `give_back` alone does not say how.

    """
    try:
        with named_failures(what):
            yield
    except PartLost as error:
        if not keep_trying(held.retry, seconds=PATIENCE_S):
            give_up(error)
    except Unavailable:
        # The job runner is starting, there is no room, or the database is busy; the sweep rings again.
        keep_trying(put_back or held.give_back, seconds=PATIENCE_S)
    except AppError as error:
        give_up(error)


def _describe(error: Exception) -> str:
    """Return an error in one line of limited length, in signs that every database keeps."""
    # A text of 32 MB is not looked at as a whole.
    words = " ".join(str(error)[: 2 * MOST_SAID].split())
    said = "".join(sign if sign.isprintable() else "\ufffd" for sign in words)
    cut = said if len(said) <= MOST_SAID else f"{said[:MOST_SAID]}…"
    return f"{type(error).__name__}: {cut}" if cut else type(error).__name__
