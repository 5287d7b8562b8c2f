"""Transactions that unfinished builds read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.builds.models import Build, JobInput
from webapp.builds.rules.states import JOB_ENDS, BuildState
from webapp.datasets.services.removals import Need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset

WAY_OUT = "Wait for the build or cancel it"


def list_needs(dataset: Dataset, _by: Principal | None) -> Iterator[Need]:
    """Yield the transactions of a dataset that unfinished jobs are pinned to, or builds without a plan name."""
    inputs = JobInput.objects.filter(transaction__dataset=dataset).exclude(job__state__in=JOB_ENDS)
    for row in inputs.select_related("job", "transaction"):
        if row.transaction is not None:
            reader = f"job {row.job.number} of build {row.job.build_id} reads it"
            yield Need(row.transaction, reader, WAY_OUT, keeps_table=True)
    resolving = Build.objects.filter(state=BuildState.RESOLVING).exclude(pins={})
    named = {pins[dataset.path]: build for build, pins in resolving.values_list("pk", "pins") if dataset.path in pins}
    for pinned in dataset.transactions.filter(pk__in=named):
        yield Need(pinned, f"build {named[pinned.pk]} is to read it", WAY_OUT, keeps_table=True)
