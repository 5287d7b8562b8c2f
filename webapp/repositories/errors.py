"""Git's refusals as answers of the product."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from webapp.core.errors import AppError, Conflict, InvalidInput, NotFound, StorageFull, TooLarge, Unavailable
from webapp.git import errors as git

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def git_refusals() -> Iterator[None]:
    """Turn an error of the git package into one that every page and endpoint can show."""
    try:
        yield
    except (git.UnknownRef, git.UnknownPath) as error:
        code = "unknown_ref" if isinstance(error, git.UnknownRef) else "unknown_path"
        raise NotFound(str(error), code=code) from error
    except git.HeadMoved as error:
        raise Conflict(str(error), code="head_moved", head=error.head, branch=error.branch) from error
    except git.RefLocked as error:
        raise Unavailable(str(error), code="repository_locked", lock=error.lock) from error
    except git.BranchExists as error:
        raise Conflict(str(error), code="branch_exists") from error
    except git.MergeConflict as error:
        raise Conflict(str(error), code="merge_conflict", conflicts=list(error.paths)) from error
    except git.NothingChanged as error:
        raise InvalidInput(str(error), code="nothing_changed") from error
    except git.BadChange as error:
        raise InvalidInput(str(error), code="bad_change", errors={"changes": [str(error)]}) from error
    except git.TooBig as error:
        raise TooLarge(str(error), code="too_large") from error
    except git.NotStored as error:
        raise StorageFull(str(error)) from error
    except git.ForeignCopy as error:
        raise Unavailable(str(error), code="repository_damaged") from error
    except git.GitError as error:
        raise Unavailable(str(error), code="git_failed") from error


def explain_git_failure(error: BaseException) -> AppError | None:
    """Return the refusal that a failure of Git amounts to, of a damaged repository above all; None for all others."""
    if not isinstance(error, git.GitError):
        return None
    try:
        with git_refusals():
            raise error
    except AppError as refusal:
        return refusal
