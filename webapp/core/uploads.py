"""Files that are sent: written to the uploads folder while they arrive, and gone at once when that fails."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.core.files.uploadedfile import TemporaryUploadedFile
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
