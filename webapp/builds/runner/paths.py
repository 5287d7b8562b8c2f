"""Where builds keep files, all below the installation's home."""

from pathlib import Path

from django.conf import settings


def log_path(job_id: str) -> Path:
    """Return the log of a job."""
    return _home() / "logs" / "jobs" / f"{job_id}.log"


def work_folder(job_id: str, attempt: int) -> Path:
    """Return the folder of one attempt: its manifest and its answer."""
    return _home() / "jobs" / f"{job_id}.{attempt}"


def seals_folder() -> Path:
    """Return the folder with what published attempts have left in their tables, as their keepers recorded it."""
    return _home() / "seals"


def tree_folder(repository: str, sha: str) -> Path:
    """Return the folder with the files of one commit, shared by all jobs of that commit."""
    return _home() / "trees" / repository / sha


def uploads_folder() -> Path:
    """Return the folder where uploaded files wait for their job."""
    return _home() / "uploads"


def kept_folder() -> Path:
    """Return the folder with the files of uploads that merges may repeat."""
    return _home() / "kept"


def kept_path(job_id: str) -> Path:
    """Return the kept file of an upload."""
    return kept_folder() / job_id


def trees_folder() -> Path:
    """Return the folder of all exported commits."""
    return _home() / "trees"


def _home() -> Path:
    return Path(settings.TRIBUTARY_HOME)
