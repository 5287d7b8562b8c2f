"""Requests to a catalog that goes away for a moment: they are sent again, and have their effect once.

A connection that ends without an answer leaves open whether the request had its effect. A read can be repeated; for a
change every try carries the same Idempotency-Key, by which the catalog settles it.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from requests import ConnectionError as NoConnection
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.exceptions import ChunkedEncodingError

PATIENCE_S = 90.0
"""So long a job waits for a catalog that does not answer; a web process is back within seconds."""
FIRST_PAUSE_S, MOST_PAUSE_S = 0.2, 3.0
KEY = "Idempotency-Key"
TRY_AGAIN = frozenset({429, 502, 503, 504})
UNKNOWN = b"CommitStateUnknownException"
"""An answer that leaves the effect open, as silence does."""


class PatientAdapter(HTTPAdapter):
    """Sends a request until it is answered, for `PATIENCE_S` at most; then what happened last is what happened."""

    def send(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
        """Send a request and read its answer whole."""
        if request.method not in ("GET", "HEAD"):
            request.headers.setdefault(KEY, str(uuid4()))
        deadline = time.monotonic() + PATIENCE_S
        pause = FIRST_PAUSE_S
        while True:
            is_last = time.monotonic() + pause > deadline
            try:
                response = super().send(request, *arguments, **options)
                is_open = response.status_code in TRY_AGAIN or (
                    response.status_code >= 500 and UNKNOWN in response.content
                )
                if is_last or not is_open:
                    # An answer that is cut off shows only when it is read.
                    response.content  # noqa: B018
                    return response
            except (NoConnection, ChunkedEncodingError):
                if is_last:
                    raise
            time.sleep(pause)
            pause = min(MOST_PAUSE_S, pause * 2)
