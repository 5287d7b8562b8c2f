"""What failed, in one line: messages of Spark and of its transport go on for pages, or begin with none of the cause."""

from __future__ import annotations

import re

from jobs.protocol import CLOCK_BEHIND, LOST_COMMIT

LONGEST = 2000
_LOST_BY_SPARK = f"org.apache.iceberg.exceptions.{LOST_COMMIT}"
_REFUSED_FOR_CLOCK = "Invalid update timestamp"
_TRANSPORT = re.compile(
    r'status = StatusCode\.(?P<status>\w+)\s+details = "(?P<details>.*?)"\s+debug_error_string', re.DOTALL
)
_JAVA = "\n\nJVM stacktrace"


def is_out_of_memory_beside_spark(error: BaseException) -> bool:
    """Return whether a Python function of Spark met the limit of its process; Spark passes its traceback on as text."""
    return type(error).__module__.startswith("pyspark") and "MemoryError" in str(error)


def name_kind(error: BaseException) -> str:
    """Return the name of an error's class; of a lost commit PyIceberg's, also where Spark reports it."""
    said = str(error) if type(error).__module__.startswith("pyspark") else ""
    if _LOST_BY_SPARK in said:
        return LOST_COMMIT
    return CLOCK_BEHIND if _REFUSED_FOR_CLOCK in said else type(error).__name__


def describe(error: BaseException) -> str:
    """Return the first paragraph of a message, of Spark's the first line, and of a call's what the server said."""
    text = str(error).strip().split(_JAVA)[0]
    call = _TRANSPORT.search(text)
    if call is not None:
        details = call["details"].strip().partition("\n")[0] or "no details"
        text = f"Spark Connect: {call['status']}: {details}"
    elif type(error).__module__.startswith("pyspark"):
        text = text.partition("\n")[0]
    return (text or "no message")[:LONGEST]
