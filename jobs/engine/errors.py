"""Why a diff could not be made. Each has the code that DiffResult carries and a sentence for the page."""

from __future__ import annotations

from typing import ClassVar


class DiffError(Exception):
    """The root: `code` is one of protocol.DiffFailure, the message is shown to people."""

    code: ClassVar[str] = "unreadable"


class ExpiredSnapshotError(DiffError):
    """The metadata no longer lists the snapshot."""

    code = "expired"


class UnreadableTableError(DiffError):
    """A file of the table is missing, damaged or not what the specification says."""

    code = "unreadable"


class ForeignFileError(UnreadableTableError):
    """A snapshot of the table lists a file of another table: its writer chose the path."""


class UnsupportedTableError(DiffError):
    """The table uses something this engine does not read."""

    code = "unsupported"


class InvalidRulesError(DiffError):
    """A key, ignored column or tolerance that does not fit the two schemas."""

    code = "bad_rules"


class RefusedQueryError(DiffError):
    """SQL that is none, does not only read, or fails over the rows that it reads."""

    code = "refused"


class MemoryLimitError(DiffError):
    """The comparison does not fit into the memory it may use, even with spilling."""

    code = "memory_limit"


class DiskLimitError(DiffError):
    """There is no room left to spill or to write the artifact."""

    code = "disk_limit"


class TimeLimitError(DiffError):
    """The comparison took longer than it may."""

    code = "time_limit"


class CancelledError(DiffError):
    """Somebody stopped the comparison."""

    code = "cancelled"
