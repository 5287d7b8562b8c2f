"""Planning by example: the document's story, every reason in words, every refusal with its code and names."""

from dataclasses import replace

import pytest

from tests.property.strategies_builds import carry_out, make_spec
from webapp.builds.rules.plan import join_words, make_plan
from webapp.builds.rules.values import (
    BuildPlan,
    Committed,
    DatasetState,
    DeclaredInput,
    Request,
    Spec,
)
from webapp.core.errors import InvalidInput

ON_MASTER = {"master": None}
CHAIN = ("feature", "master")


def dataset(path: str, **committed: Committed) -> DatasetState:
    return DatasetState(path, ON_MASTER, committed)


def upload(name: str) -> Committed:
    return Committed(id=name, branch="master", by="ada", is_upload=True)


def plan(
    specs: list[Spec],
    *targets: str,
    datasets: dict[str, DatasetState] | None = None,
    **request: object,
) -> BuildPlan:
    states = datasets if datasets is not None else {"/n/a": dataset("/n/a", master=upload("ta"))}
    chain = request.pop("chain", ("master",))
    return make_plan(
        specs=specs,
        request=Request(chain=chain, targets=targets, **request),
        datasets=states,
    )  # type: ignore[arg-type]


def refuse(*arguments: object, **request: object) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        plan(*arguments, **request)  # type: ignore[arg-type]
    return caught.value


def test_plan_follows_the_example_of_the_document() -> None:
    """A, B, C exist on master; the code of B and C changed on feature: both are built there, A is read by fallback."""
    on_master = [
        make_spec(1, inputs=("/n/a",), outputs=("/n/b",)),
        make_spec(2, inputs=("/n/b",), outputs=("/n/c",)),
    ]
    states = {path: DatasetState(path, ON_MASTER) for path in ("/n/a", "/n/b", "/n/c")}
    states["/n/a"] = dataset("/n/a", master=upload("ta"))
    states = carry_out(plan(on_master, "/n/b", "/n/c", datasets=states), states)
    on_feature = [
        make_spec(3, inputs=("/n/a",), outputs=("/n/b",), branch="feature", digest="new"),
        make_spec(4, inputs=("/n/b",), outputs=("/n/c",), branch="feature", digest="new"),
    ]
    built = plan([*on_master, *on_feature], "/n/c", "/n/b", chain=CHAIN, datasets=states)
    first, second = built.jobs
    assert (
        first.inputs[0].branch,
        first.inputs[0].transaction,
        first.inputs[0].fallback,
    ) == ("master", "ta", True)
    assert (second.inputs[0].branch, second.inputs[0].from_job) == ("feature", 1)
    assert [(o.path, o.branch, o.is_new, o.parent) for j in built.jobs for o in j.outputs] == [
        ("/n/b", "feature", True, "master"),
        ("/n/c", "feature", True, "master"),
    ]
    assert (first.why, second.why) == (
        "Code changed in 0000000",
        "Input built by job 1",
    )


def test_why_names_each_reason() -> None:
    spec = make_spec(1, inputs=("/n/a",), outputs=("/n/b",))
    a = dataset("/n/a", master=upload("ta"))
    made = Committed(id="tb", branch="master", digest="d", inputs={"/n/a": "ta"})

    def why(newest: Committed | None, **request: object) -> tuple[bool, str]:
        b = dataset("/n/b", master=newest) if newest else DatasetState("/n/b")
        job = plan([spec], "/n/b", datasets={"/n/a": a, "/n/b": b}, **request).jobs[0]
        return job.is_fresh, job.why

    assert why(None) == (False, "/n/b was never built")
    assert why(made) == (True, "Same code and input transactions as on this branch")
    assert why(made, chain=CHAIN) == (
        True,
        "Same code and input transactions as on master",
    )
    assert why(replace(made, inputs={"/n/a": "old"})) == (False, "Newer data in /n/a")
    assert why(replace(made, digest="old")) == (False, "Code changed in 0000000")
    assert why(upload("tb")) == (
        False,
        "Newest data on master was written by an upload by ada",
    )
    assert why(made, force=True) == (False, "Asked to run even if fresh")
    assert why(made, forced=frozenset({"/n/b"})) == (
        False,
        "Asked to run even if fresh",
    )


def test_new_jobspec_on_a_branch_says_so() -> None:
    spec = make_spec(1, inputs=("/n/a",), outputs=("/n/b",), branch="feature")
    built = plan([spec], "/n/b", chain=CHAIN)
    assert built.jobs[0].why == "New JobSpec on this branch"
    assert built.jobs[0].outputs[0].parent is None


def test_unknown_target_names_target_and_chain() -> None:
    error = refuse([], "/n/nothing", chain=CHAIN)
    assert (error.code, error.detail) == (
        "unknown_target",
        "No JobSpec makes /n/nothing on any branch of the chain feature → master. Commit a transform with it as output, "
        "or load a file into it.",
    )


def test_no_target_is_refused() -> None:
    assert refuse([]).code == "no_targets"


def test_cycle_is_refused_even_when_only_one_of_it_is_built() -> None:
    specs = [
        make_spec(1, inputs=("/n/c",), outputs=("/n/b",)),
        make_spec(2, inputs=("/n/b",), outputs=("/n/c",)),
    ]
    error = refuse(specs, "/n/b")
    assert (error.code, error.detail) == (
        "cycle",
        "These datasets are made from each other: /n/b → /n/c → /n/b.",
    )


def test_transform_that_reads_its_own_output_is_a_cycle() -> None:
    assert refuse([make_spec(1, inputs=("/n/b",), outputs=("/n/b",))], "/n/b").code == "cycle"


def test_input_without_data_on_the_chain_names_input_and_transform() -> None:
    error = refuse([make_spec(1, inputs=("/n/gone",), outputs=("/n/b",))], "/n/b", chain=CHAIN)
    assert error.code == "input_missing"
    assert error.detail == (
        "pipelines.module:compute_1 (nyc, branch master) reads /n/gone, "
        "which has no data on any branch of the chain feature → master."
    )


def test_input_that_could_be_built_says_how() -> None:
    specs = [
        make_spec(1, inputs=("/n/a",), outputs=("/n/b",)),
        make_spec(2, inputs=("/n/b",), outputs=("/n/c",)),
    ]
    assert refuse(specs, "/n/c").detail.endswith("makes it: build it first, or build with upstream.")
    assert [job.outputs[0].path for job in plan(specs, "/n/c", upstream=True).jobs] == [
        "/n/b",
        "/n/c",
    ]


def test_branch_without_committed_transaction_does_not_count_for_inputs() -> None:
    spec = make_spec(1, inputs=("/n/a",), outputs=("/n/b",))
    a = DatasetState("/n/a", {"feature": "master", "master": None}, {"master": upload("ta")})
    assert plan([spec], "/n/b", chain=CHAIN, datasets={"/n/a": a}).jobs[0].inputs[0].branch == "master"


def test_a_pinned_input_is_read_instead_of_the_newest_unless_this_build_makes_it() -> None:
    first = make_spec(1, inputs=("/n/a",), outputs=("/n/b",))
    second = make_spec(2, inputs=("/n/a", "/n/b"), outputs=("/n/c",))
    a = dataset("/n/a", master=upload("newest"))
    b = dataset("/n/b", master=Committed(id="tb", branch="master", digest="d", inputs={"/n/a": "newest"}))
    pins = {"/n/a": Committed(id="pinned", branch="master"), "/n/b": Committed(id="other", branch="master")}

    built = plan([first, second], "/n/b", "/n/c", datasets={"/n/a": a, "/n/b": b}, pins=pins)

    assert built.jobs[0].why == "Other data in /n/a"
    assert [each.transaction for each in built.jobs[0].inputs] == ["pinned"]
    assert [(each.transaction, each.from_job) for each in built.jobs[1].inputs] == [("pinned", None), (None, 1)]


def test_declared_branch_other_than_the_builds_names_both() -> None:
    spec = make_spec(1, inputs=("/n/a",), outputs=("/n/b",))
    spec = replace(spec, inputs=(DeclaredInput("i", "/n/a", "develop"),))
    error = refuse([spec], "/n/b", chain=CHAIN)
    assert error.code == "branch_mismatch"
    assert "branch develop" in error.detail
    assert "runs on feature" in error.detail


def test_declared_branch_equal_to_the_builds_is_fine() -> None:
    spec = make_spec(1, inputs=("/n/a",), outputs=("/n/b",))
    spec = replace(spec, inputs=(DeclaredInput("i", "/n/a", "master"),))
    assert len(plan([spec], "/n/b").jobs) == 1


def test_two_repositories_for_one_output_names_both() -> None:
    specs = [
        make_spec(1, inputs=(), outputs=("/n/b",), repository="first", branch="feature"),
        make_spec(2, inputs=(), outputs=("/n/b",), repository="second"),
    ]
    error = refuse(specs, "/n/b", chain=CHAIN)
    assert error.code == "two_repositories"
    assert "first" in error.detail
    assert "second" in error.detail


def test_two_transforms_for_one_output_names_both() -> None:
    specs = [
        make_spec(1, inputs=(), outputs=("/n/b",)),
        make_spec(2, inputs=(), outputs=("/n/b",)),
    ]
    error = refuse(specs, "/n/b")
    assert error.code == "two_transforms"
    assert "compute_1" in error.detail
    assert "compute_2" in error.detail


def test_fallback_transform_whose_other_output_the_branch_makes_differently_is_refused() -> None:
    specs = [
        make_spec(1, inputs=(), outputs=("/n/b", "/n/c")),
        make_spec(2, inputs=(), outputs=("/n/b",), branch="feature"),
    ]
    assert refuse(specs, "/n/c", chain=CHAIN).code == "two_transforms"


def test_explain_reads_as_text() -> None:
    text = plan([make_spec(1, inputs=("/n/a",), outputs=("/n/b",))], "/n/b", chain=CHAIN).explain()
    assert text.splitlines() == [
        "Build on feature → master, targets /n/b",
        "1. /n/b: runs. /n/b was never built",
        "   pipelines.module:compute_1 (pipelines/module.py:1), nyc master 0000000, light small",
        "   reads /n/a on master by fallback, transaction ta",
        "   writes /n/b on feature, new root branch",
    ]


def test_join_words() -> None:
    assert (join_words(["a"]), join_words(["a", "b"]), join_words([1, 2, 3])) == (
        "a",
        "a and b",
        "1, 2 and 3",
    )
