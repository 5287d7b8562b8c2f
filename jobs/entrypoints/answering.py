"""Processes that read for the web: they hear one question after the other over a channel and answer each."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from jobs.channel import NUMBER, Channel, Closed
from jobs.engine.channel_io import ChannelFileIO
from jobs.engine.read.manifest_files import DamagedManifest, UnreadableManifest
from jobs.entrypoints.address_space import leave_room
from jobs.protocol import ReadFailure

ROOM_BYTES = 1024**3
"""For what is decoded."""


@dataclass(frozen=True)
class Answer:
    """JSON, and bytes behind it."""

    body: dict[str, Any]
    payload: bytes = b""


class Answering(ABC):
    """The answers to one caller."""

    out_of_memory: ClassVar[tuple[type[Exception], ...]] = (MemoryError,)
    """What libraries raise when there is no memory left."""

    def __init__(self, files: ChannelFileIO) -> None:
        self.files = files

    @abstractmethod
    def work_out(self, ask: str, details: dict[str, Any]) -> Answer:
        """Answer one question; whatever libraries raise over the files comes through."""

    def answer(self) -> None:
        """Hear one question and answer it."""
        question = self.files.hear_question()
        try:
            answer = self.work_out(question.pop("ask"), question)
        except DamagedManifest as error:
            answer = _failure("damaged", str(error))
        except UnreadableManifest as error:
            answer = _failure("beyond", str(error))
        except self.out_of_memory as error:
            answer = _failure("memory", type(error).__name__)
        except Closed:
            raise
        except Exception as error:  # what libraries raise over such files is not written anywhere
            answer = _failure("damaged", type(error).__name__)
        self.files.answer(answer.body, answer.payload)


def answer_all(
    make: Callable[[ChannelFileIO], Answering], *, most_question_bytes: int, patience_s: float | None = None
) -> int:
    """Answer until nobody asks any more, or nobody has asked for so long; return the exit code."""
    leave_room(ROOM_BYTES)
    connection = socket.socket(fileno=NUMBER)
    connection.settimeout(patience_s)
    answering = make(ChannelFileIO(Channel(connection, at_most=most_question_bytes)))
    try:
        while True:
            answering.answer()
    except (Closed, TimeoutError):
        return 0


def _failure(kind: ReadFailure, message: str) -> Answer:
    return Answer({"failure": kind, "message": message})
