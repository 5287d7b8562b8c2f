"""Git's refusals as answers of the product."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from webapp.core.errors import AppError, Conflict, InvalidInput, NotFound, StorageFull, TooLarge, Unavailable
from webapp.git import errors as git

if TYPE_CHECKING:
    from collections.abc import Iterator


_REFUSALS: dict[type[git.GitError], tuple[type[AppError], str]] = {
    git.UnknownRef: (NotFound, "unknown_ref"),
    git.UnknownPath: (NotFound, "unknown_path"),
    git.BranchExists: (Conflict, "branch_exists"),
    git.CannotRebase: (Conflict, "cannot_rebase"),
    git.NothingChanged: (InvalidInput, "nothing_changed"),
    git.TooBig: (TooLarge, "too_large"),
    git.ForeignCopy: (Unavailable, "repository_damaged"),
}
"""What each amounts to, and its code, where its sentence is all that there is to say."""


@contextmanager
def git_refusals() -> Iterator[None]:
    """Turn an error of the git package into one that every page and endpoint can show."""
    try:
        yield
    except git.HeadMoved as error:
        raise Conflict(str(error), code="head_moved", head=error.head, branch=error.branch) from error
    except git.RefLocked as error:
        raise Unavailable(str(error), code="repository_locked", lock=error.lock) from error
    except git.MergeConflict as error:
        raise Conflict(str(error), code="merge_conflict", conflicts=list(error.paths)) from error
    except git.BadChange as error:
        raise InvalidInput(str(error), code="bad_change", errors={"changes": [str(error)]}) from error
    except git.NotStored as error:
        raise StorageFull(str(error)) from error
    except git.GitError as error:
        refusal, code = _REFUSALS.get(type(error), (Unavailable, "git_failed"))
        raise refusal(str(error), code=code) from error


def explain_git_failure(error: BaseException) -> AppError | None:
    """Return the refusal that a failure of Git amounts to, of a damaged repository above all; None for all others."""
    if not isinstance(error, git.GitError):
        return None
    try:
        with git_refusals():
            raise error
    except AppError as refusal:
        return refusal
