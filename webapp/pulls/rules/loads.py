"""Files that merging loads on the target, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Writer:
    """Who wrote what a target has of a dataset, and how."""

    by: str
    is_upload: bool
    is_build: bool


def explain_nothing(*, source: str, target: str) -> str:
    """Say why a source cannot be proposed: it has neither commits nor files of its own."""
    return (
        f"{target} already has every commit of {source}, and nobody has loaded files on {source} that merging could load "
        "there: there is nothing to merge."
    )


def explain_writer(writer: Writer | None) -> str:
    """Say what became of a dataset of the target, in words that go on from its name."""
    if writer is None:
        return "was removed"
    verb = "was loaded" if writer.is_upload else "was built" if writer.is_build else "was written"
    return f"{verb} by {writer.by or 'somebody'}"
