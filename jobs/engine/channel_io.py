"""A table's files as the web opens them for this process, which itself sees none: each is asked for over the channel.

On this machine the answer is an open file, in an object store its size; its bytes are then asked for range by range.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Mapping
from threading import Lock
from typing import Any, NoReturn

from pyiceberg.io import FileIO, InputFile

from jobs.channel import Channel, Heard


class ChannelFileIO(FileIO):  # type: ignore[misc]
    """PyIceberg's file access over a channel; for reading alone."""

    def __init__(self, channel: Channel) -> None:
        super().__init__({})
        self._channel = channel
        # PyIceberg reads several files in threads: a wish and what is given belong together, and none comes after the end
        self._speaking = Lock()
        self._is_heard = False

    def new_input(self, location: str) -> ChannelInput:
        """Return a file to read; nothing is asked yet."""
        return ChannelInput(location, self)

    def new_output(self, location: str) -> NoReturn:
        """Refuse: nothing is written here."""
        raise PermissionError(errno.EROFS, "this process only reads", location)

    def delete(self, location: Any) -> NoReturn:
        """Refuse: nothing is deleted here."""
        raise PermissionError(errno.EROFS, "this process only reads", str(location))

    def ask(self, **wish: Any) -> Heard:
        """Ask the web for a file or for bytes of it.

        Raises:
            FileNotFoundError: the web gives none; it knows why.

        """
        with self._speaking:
            if not self._is_heard:
                raise OSError(errno.ECANCELED, "the answer has been given without it", str(wish))
            self._channel.send(wish)
            heard = self._channel.receive()
        if "size" not in heard.body:
            raise FileNotFoundError(errno.ENOENT, str(heard.body.get("refused")), wish.get("open"))
        return heard

    def hear_question(self) -> dict[str, Any]:
        """Wait for the web's next question; from now on files are given."""
        with self._speaking:
            question = self._channel.receive().body
            self._is_heard = True
        return question

    def answer(self, body: Mapping[str, Any], payload: bytes = b"") -> None:
        """Answer the web's question."""
        with self._speaking:
            self._is_heard = False
            self._channel.send(body, payload=payload)


class ChannelInput(InputFile):  # type: ignore[misc]
    """One file of the table."""

    def __init__(self, location: str, files: ChannelFileIO) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        with self.open() as file:
            return file.seek(0, os.SEEK_END)

    def exists(self) -> bool:
        """Return whether the web gives it."""
        try:
            self.open().close()
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> io.RawIOBase:  # noqa: ARG002 - every file is
        """Open it.

        Raises:
            FileNotFoundError: the web does not give it.

        """
        heard = self._files.ask(open=self.location)
        if heard.descriptor is not None:
            return io.FileIO(heard.descriptor)
        return _Remote(self.location, int(heard.body["size"]), self._files)


class _Remote(io.RawIOBase):
    """An object, read range by range."""

    def __init__(self, location: str, size: int, files: ChannelFileIO) -> None:
        self._location = location
        self._size = size
        self._files = files
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        size = max(0, min(len(view), self._size - self._place))
        if size == 0:
            return 0
        heard = self._files.ask(read=self._location, start=self._place, size=size)
        view[: len(heard.payload)] = heard.payload
        self._place += len(heard.payload)
        return len(heard.payload)
