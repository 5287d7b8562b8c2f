"""What can go wrong with a Git repository; the repositories app turns these into answers."""

from __future__ import annotations


class GitError(Exception):
    """A Git act that could not be done; the message is fit for a user."""


class ForeignCopy(GitError):
    """What lies where a repository should is another one's."""


class UnknownRef(GitError):
    """No branch or commit has this name."""


class UnknownPath(GitError):
    """The commit has no file or folder at this path."""


class BranchExists(GitError):
    """A branch of this name is there already."""


class HeadMoved(GitError):
    """The branch points elsewhere than the caller believed."""

    def __init__(self, *, branch: str, head: str) -> None:
        """Name the branch and where it points now."""
        super().__init__(f"Branch {branch} has moved to {head[:7] or 'nothing'}.")
        self.branch = branch
        self.head = head


class RefLocked(GitError):
    """Another writer has locked the ref at this moment, or died while it had."""

    def __init__(self, lock: str) -> None:
        """Name the lock."""
        super().__init__(
            f"{lock} is held by another writer, or was left by one that died. It goes away by itself within seconds: "
            "try again."
        )
        self.lock = lock


class BadChange(GitError):
    """One requested change of a file cannot be made."""

    def __init__(self, path: str, message: str) -> None:
        """Name the path and what is wrong with it."""
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.reason = message


class NotStored(GitError):
    """Objects could not be written: nothing points to what there is of them."""

    def __init__(self) -> None:
        """Name what is most likely."""
        super().__init__(
            "Git could not store it, and nothing was changed: the disk of the repositories is full or fails. "
            "Free some space and try again."
        )


class NothingChanged(GitError):
    """The requested changes leave every file as it is."""


class TooBig(GitError):
    """A file, a set of changes or a tree is over its limit."""


class CannotRebase(GitError):
    """Commits cannot be made anew one by one on top of another."""


class MergeConflict(GitError):
    """Two commits change the same lines."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        """Name the files that conflict."""
        super().__init__("These files conflict: " + ", ".join(paths))
        self.paths = paths
