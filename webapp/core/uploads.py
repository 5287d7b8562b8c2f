"""Files that are sent: written to the uploads folder while they arrive, and gone at once when that fails."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.core.files.uploadhandler import TemporaryFileUploadHandler


class UploadHandler(TemporaryFileUploadHandler):
    """Django's handler leaves what it has written of a file on a disk that is full, until memory is tidied up."""

    file: TemporaryUploadedFile

    def receive_data_chunk(self, raw_data: bytes, start: int) -> Any:
        """Write one chunk."""
        try:
            return super().receive_data_chunk(raw_data, start)
        except OSError:
            self._remove()
            raise

    def file_complete(self, file_size: int) -> Any:
        """Hand the file over."""
        try:
            return super().file_complete(file_size)
        except OSError:
            self._remove()
            raise

    def _remove(self) -> None:
        with suppress(OSError):  # closing writes what is left, and fails as the chunk did; the file goes all the same
            self.file.close()


def take_content(file: UploadedFile[Any]) -> Path | Iterable[bytes]:
    """Return where a sent file lies on the disk, to be linked and not copied; its pieces where it is in memory."""
    return Path(file.temporary_file_path()) if isinstance(file, TemporaryUploadedFile) else file.chunks()
