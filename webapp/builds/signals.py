"""What happens to builds, announced to the layers above."""

from django.dispatch import Signal

build_finished = Signal()
"""(build): it reached COMPLETED, FAILED or ABORTED; sent inside the atomic block of that change."""

build_retried = Signal()
"""(build, again): a build that is over is tried again by another; sent inside the atomic block in which that one is made."""

job_finished = Signal()
"""(job): it reached its end; sent inside the atomic block of that change."""
