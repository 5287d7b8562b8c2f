"""Laws of planning: DESIGN's guarantees for branches in builds, over random graphs, branches and histories."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.property.strategies_builds import World, carry_out, worlds
from webapp.builds.rules.loads import Load, LoadedFile
from webapp.builds.rules.plan import list_involved_paths, make_plan
from webapp.builds.rules.values import BuildPlan, DatasetState, Request
from webapp.core.errors import InvalidInput


def plan_world(world: World) -> BuildPlan:
    """Plan, leaving out worlds whose inputs have no data: that refusal has its own tests."""
    try:
        return make_plan(specs=world.specs, request=world.request, datasets=world.datasets)
    except InvalidInput as error:
        assume(error.code != "input_missing")
        raise


@given(worlds())
def test_plan_writes_only_declared_outputs_on_the_build_branch(world: World) -> None:
    plan = plan_world(world)
    declared = {output.path for spec in world.specs for output in spec.outputs}
    for job in plan.jobs:
        assert {output.branch for output in job.outputs} == {world.request.branch}
        assert {output.path for output in job.outputs} <= declared


@given(worlds())
def test_plan_carried_out_leaves_other_branches_and_inputs_alone(world: World) -> None:
    plan = plan_world(world)
    after = carry_out(plan, world.datasets)
    written = set(plan.written_paths)
    for path, before in world.datasets.items():
        if path not in written:
            assert after[path] == before
        for branch in set(before.parents) - {plan.branch}:
            assert after[path].parents[branch] == before.parents[branch]
            assert after[path].committed.get(branch) == before.committed.get(branch)
        assert set(after[path].parents) <= {*before.parents, plan.branch}


@given(worlds())
def test_plan_pins_inputs_to_the_first_branch_with_data_or_to_an_earlier_job(
    world: World,
) -> None:
    plan = plan_world(world)
    maker = {output.path: job.number for job in plan.running_jobs for output in job.outputs}
    for job in plan.jobs:
        for each in job.inputs:
            assert each.from_job == maker.get(each.path)
            if each.from_job is not None:
                assert each.from_job < job.number
                assert (each.branch, each.transaction, each.fallback) == (
                    plan.branch,
                    None,
                    False,
                )
                continue
            committed = world.datasets[each.path].committed
            nearest = next(branch for branch in plan.chain if branch in committed)
            assert (each.branch, each.transaction) == (nearest, committed[nearest].id)
            assert each.fallback == (nearest != plan.branch)


@given(worlds())
def test_plan_takes_each_jobspec_from_the_first_branch_that_has_one(
    world: World,
) -> None:
    for job in plan_world(world).jobs:
        path = job.outputs[0].path
        branches = {spec.branch for spec in world.specs if path in {output.path for output in spec.outputs}}
        assert job.spec_branch == next(branch for branch in world.request.chain if branch in branches)


@given(worlds())
def test_plan_makes_new_branches_off_the_first_existing_one_of_the_chain(
    world: World,
) -> None:
    plan = plan_world(world)
    for job in plan.jobs:
        for output in job.outputs:
            existing = world.datasets[output.path].parents
            nearest = next((branch for branch in plan.chain if branch in existing), None)
            assert output.is_new == (nearest != plan.branch)
            assert output.parent == (nearest if output.is_new else None)


@given(worlds())
def test_plan_covers_targets_and_with_upstream_everything_above(world: World) -> None:
    plan = plan_world(world)
    outputs = {output.path for job in plan.jobs for output in job.outputs}
    assert set(world.request.targets) <= outputs
    made = {output.path for spec in world.specs for output in spec.outputs}
    if world.request.upstream:
        assert {each.path for job in plan.jobs for each in job.inputs} & made <= outputs


@given(worlds())
def test_second_build_is_all_fresh(world: World) -> None:
    plan = plan_world(world)
    after = carry_out(plan, world.datasets)
    again = Request(chain=plan.chain, targets=plan.targets, upstream=world.request.upstream)
    second = make_plan(specs=world.specs, request=again, datasets=after)
    assert [job.is_fresh for job in second.jobs] == [True] * len(second.jobs)
    assert second.written_paths == ()


@given(worlds(), st.data())
def test_one_changed_digest_runs_that_job_and_what_reads_it(world: World, data: st.DataObject) -> None:
    request = Request(chain=world.request.chain, targets=world.request.targets, upstream=True)
    first = plan_world(World(world.specs, request, world.datasets))
    after = carry_out(first, world.datasets)
    changed = data.draw(st.sampled_from(first.jobs))
    specs = tuple(
        spec if spec.id != changed.spec else type(spec)(**{**as_fields(spec), "digest": "other"})
        for spec in world.specs
    )
    second = make_plan(specs=specs, request=request, datasets=after)
    expected: set[int] = {changed.spec}
    for job in second.jobs:
        if any(second.jobs[each.from_job - 1].spec in expected for each in job.inputs if each.from_job):
            expected.add(job.spec)
    assert {job.spec for job in second.running_jobs} == expected


def as_fields(spec: object) -> dict[str, object]:
    """Return the fields of a slotted value."""
    return {name: getattr(spec, name) for name in spec.__slots__}  # type: ignore[attr-defined]


@given(worlds(), st.randoms())
def test_plan_depends_on_no_order_and_survives_json(world: World, shuffle: random.Random) -> None:
    plan = plan_world(world)
    specs = list(world.specs)
    shuffle.shuffle(specs)
    assert make_plan(specs=specs, request=world.request, datasets=world.datasets) == plan
    assert BuildPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert all(f"{job.number}. " in plan.explain() for job in plan.jobs)


@given(worlds())
def test_plan_looks_only_at_the_paths_it_names(world: World) -> None:
    plan = plan_world(world)
    involved = list_involved_paths(specs=world.specs, request=world.request)
    seen = {path: state for path, state in world.datasets.items() if path in involved}
    assert make_plan(specs=world.specs, request=world.request, datasets=seen) == plan


@given(worlds(), st.data())
def test_what_reads_a_loaded_dataset_waits_for_the_load_and_none_is_loaded_twice(
    world: World, data: st.DataObject
) -> None:
    plan_world(world)
    path = data.draw(st.sampled_from([path for path in world.datasets if path.startswith("/s/source")]))
    load = Load(path, "merge", (LoadedFile("job", "new.csv", "digest", "csv", "append"),))
    request = replace(world.request, loads=(load,))
    plan = make_plan(specs=world.specs, request=request, datasets=world.datasets)
    first, *made = plan.jobs
    assert (first.is_load, first.is_fresh, first.outputs[0].path) == (True, False, path)
    assert path in plan.written_paths
    assert path in list_involved_paths(specs=world.specs, request=request)
    for job in made:
        assert {each.from_job for each in job.inputs if each.path == path} <= {1}
        assert not job.is_fresh or 1 not in job.after
    assert BuildPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert "loads new.csv" in plan.explain()
    after = carry_out(plan, world.datasets)
    again = replace(request, loaded=frozenset({load.digest}))
    second = make_plan(specs=world.specs, request=again, datasets=after)
    assert path not in second.written_paths
    made_paths = {output.path for job in second.jobs[1:] for output in job.outputs}
    with pytest.raises(InvalidInput) as caught:
        lost = replace(request, loads=(replace(load, path=min(made_paths)),))
        make_plan(specs=world.specs, request=lost, datasets=world.datasets)
    assert caught.value.code == "loaded_and_made"


@given(worlds(), st.data())
def test_chain_against_the_ancestry_of_any_involved_dataset_is_refused(world: World, data: st.DataObject) -> None:
    assume(len(world.request.chain) > 1)
    plan_world(world)
    path = data.draw(st.sampled_from(sorted(list_involved_paths(specs=world.specs, request=world.request))))
    younger, elder = world.request.chain[-2:]
    broken = DatasetState(path, {younger: None, elder: None}, world.datasets[path].committed)
    with pytest.raises(InvalidInput) as caught:
        make_plan(
            specs=world.specs,
            request=world.request,
            datasets={**world.datasets, path: broken},
        )
    assert caught.value.code == "chain_incompatible"
    assert path in caught.value.detail
    assert younger in caught.value.detail
    assert elder in caught.value.detail
