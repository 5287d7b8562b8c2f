"""Random worlds for the planner: datasets with branches, JobSpecs without cycles, a chain that fits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from webapp.builds.rules.values import (
    BuildPlan,
    Committed,
    DatasetState,
    DeclaredInput,
    DeclaredOutput,
    Request,
    Spec,
)

BRANCHES = ("feature", "develop", "master")


@dataclass(frozen=True)
class World:
    """What a plan is made from."""

    specs: tuple[Spec, ...]
    request: Request
    datasets: Mapping[str, DatasetState]


def make_spec(
    number: int,
    *,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    branch: str = "master",
    digest: str = "d",
    repository: str = "nyc",
) -> Spec:
    """Return a JobSpec with just what planning looks at."""
    return Spec(
        id=number,
        repository=repository,
        branch=branch,
        sha=f"{number:040x}",
        function=f"pipelines.module:compute_{number}",
        file="pipelines/module.py",
        line=number,
        profile="light",
        size="small",
        digest=digest,
        inputs=tuple(DeclaredInput(name=f"i{place}", path=path) for place, path in enumerate(inputs)),
        outputs=tuple(DeclaredOutput(name=f"o{place}", path=path) for place, path in enumerate(outputs)),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Sources and a layered graph of transforms; each published on some branches, each dataset built on some."""
    chain = draw(st.sampled_from([("master",), ("feature", "master"), ("feature", "develop", "master")]))
    sources = [f"/s/source{number}" for number in range(draw(st.integers(1, 3)))]
    paths = list(sources)
    specs: list[Spec] = []
    for number in range(draw(st.integers(1, 6))):
        inputs = tuple(draw(st.lists(st.sampled_from(paths), min_size=1, max_size=3, unique=True)))
        outputs = tuple(f"/s/made{number}_{place}" for place in range(draw(st.integers(1, 2))))
        published = draw(st.sets(st.sampled_from(BRANCHES), min_size=1)) | {"master"}
        for branch in sorted(published):
            digest = draw(st.sampled_from(["d1", "d2"]))
            specs.append(
                make_spec(
                    len(specs) + 1,
                    inputs=inputs,
                    outputs=outputs,
                    branch=branch,
                    digest=digest,
                )
            )
        paths.extend(outputs)
    made = paths[len(sources) :]
    datasets = {path: draw(dataset_states(path, must_exist=path in sources)) for path in paths}
    request = Request(
        chain=chain,
        targets=tuple(draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))),
        upstream=draw(st.booleans()),
        force=draw(st.booleans()),
    )
    return World(specs=tuple(specs), request=request, datasets=datasets)


@st.composite
def dataset_states(draw: st.DrawFn, path: str, *, must_exist: bool) -> DatasetState:
    """Branches that hang off each other in the order of the chain, some with committed transactions."""
    if not must_exist and draw(st.booleans()):
        return DatasetState(path)
    names = [branch for branch in BRANCHES if branch == "master" or draw(st.booleans())]
    parents = {name: elder for name, elder in zip(names, [*names[1:], None], strict=True)}
    committed = {
        name: Committed(id=f"t{path}{name}", branch=name, by="ada", is_upload=True)
        for name in names
        if (must_exist and name == "master") or draw(st.booleans())
    }
    return DatasetState(path, parents, committed)


def carry_out(plan: BuildPlan, datasets: Mapping[str, DatasetState]) -> dict[str, DatasetState]:
    """Return the datasets after every job of the plan committed its outputs."""
    after = dict(datasets)
    made: dict[tuple[int, str], str] = {}
    for job in plan.running_jobs:
        for output in job.outputs:
            made[job.number, output.path] = f"new{job.number}{output.path}"
    for job in plan.running_jobs:
        read = {each.path: each.transaction or made[each.from_job or 0, each.path] for each in job.inputs}
        for output in job.outputs:
            state = after.get(output.path, DatasetState(output.path))
            new = Committed(
                id=made[job.number, output.path],
                branch=plan.branch,
                digest=job.digest,
                inputs=read,
            )
            parents = dict(state.parents)
            if output.is_new:
                parents[output.branch] = output.parent
            after[output.path] = replace(
                state,
                parents=parents,
                committed={**state.committed, output.branch: new},
            )
    return after
