"""Opening the files of one table. In an object store their keys end while a job runs: new ones are asked for in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from pyarrow.fs import FileSystem
from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.io import InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from jobs.engine.read.metadata import check_own

EXPIRES_AT = "s3.session-token-expires-at-ms"
TOKEN = "s3.session-token"  # noqa: S105 - the name of a property
MARGIN_MS = 5 * 60 * 1000
"""So long before their end keys are replaced: a file that is opened with them may still be read for a while."""
REFUSALS = (RESTError, NoSuchTableError, OSError, ValueError)
"""How a catalog that is away, refuses or answers nonsense shows; a broken connection is an OSError."""
RETRY_S = 10.0
"""So long after they could not be replaced, or only by others that end soon, it is tried again."""


class RenewedProperties(Mapping[str, str]):
    """File access properties whose keys are replaced before they end, whenever somebody looks at them."""

    def __init__(self, properties: Mapping[str, str], renew: Callable[[], Mapping[str, str]]) -> None:
        self._current = dict(properties)
        self._renew = renew
        self._lock = threading.Lock()
        self._ask_again_at = 0.0

    def __getitem__(self, name: str) -> str:
        return self._fresh()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fresh())

    def __len__(self) -> int:
        return len(self._fresh())

    def __repr__(self) -> str:
        """Show names alone: some of the values are secrets."""
        return f"{type(self).__name__}({', '.join(self._current)})"

    def _fresh(self) -> dict[str, str]:
        with self._lock:
            now = time.time() * 1000
            if self._left(now) < MARGIN_MS and time.monotonic() >= self._ask_again_at:
                self._replace(now)
            return self._current

    def _left(self, now: float) -> float:
        return int(self._current[EXPIRES_AT]) - now

    def _replace(self, now: float) -> None:
        self._ask_again_at = time.monotonic() + RETRY_S
        try:
            self._current = {**self._current, **self._renew()}
        except REFUSALS:
            # what kept the catalog from answering may have passed before the keys end
            if self._left(now) <= 0:
                raise
        if self._left(now) >= MARGIN_MS:
            self._ask_again_at = 0


class TableFileIO(PyArrowFileIO):  # type: ignore[misc]
    """PyArrow's access to the files of one table: it reads no other file, whatever a manifest names."""

    def __init__(self, properties: Mapping[str, str], folder: str) -> None:
        super().__init__(properties)
        self._folder = folder

    def new_input(self, location: str) -> InputFile:
        """Return a file of the table to read.

        Raises:
            ForeignFileError: it is outside of the table's folder.

        """
        check_own(location, self._folder)
        return super().new_input(location)


class RenewedFileIO(TableFileIO):
    """The same by properties that are renewed."""

    def __init__(self, properties: Mapping[str, str], folder: str, renew: Callable[[], Mapping[str, str]]) -> None:
        super().__init__(RenewedProperties(properties, renew), folder)
        self._opened = lru_cache(lambda scheme, place, _token: self._initialize_fs(scheme, place))
        self.fs_by_scheme = self._open

    def _open(self, scheme: str, place: str | None) -> FileSystem:
        return self._opened(scheme, place, self.properties[TOKEN])
