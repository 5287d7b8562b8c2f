"""Incremental builds give the same answer as full ones, whatever happened to their inputs since."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings

from tests.factories.builds import HEAD, Stack, make_transform
from tests.factories.incremental import IncrementalHistory, Step, any_steps

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
FULL = "Full build: "


def start(stack: Stack) -> IncrementalHistory:
    return IncrementalHistory(stack, f"inc{uuid4().hex[:8]}")


def reasons(built: dict[str, Any]) -> dict[str, str]:
    """Why jobs were full builds, by function, as REST and the logs state it."""
    found = {}
    for job in built["build"]["jobs"]:
        name = job["function"].partition(":")[2]
        _, is_full, reason = job["why"].partition(FULL)
        if is_full:
            found[name] = reason
            start = (
                f"changelog of {job['inputs'][0]['path']} starts from nothing" if name == "followed" else "full build"
            )
            assert f"{start}: {reason}" in built["logs"][name]
    return found


def test_input_without_new_rows_adds_nothing(stack: Stack) -> None:
    history = start(stack)
    history.build()
    for side in ("left", "right"):
        history.inputs[side].append(2)
        built = history.build()
        assert reasons(built) == {}
        assert "read whole" not in built["logs"]["both"]


def test_changed_columns_make_a_full_build(stack: Stack) -> None:
    history = start(stack)
    left = history.inputs["left"]
    history.build()
    for kind, number, change in (
        ("rename", 0, "column 'a' was renamed to 'n0'"),
        ("exchange", 0, "column 'n0' was renamed to 'b'"),
        ("drop_and_add", 1, "column 'n0' was replaced by another one of its name"),
        ("drop", 2, "column 'n0' was removed"),
        ("add_with_default", 3, "new column 'n3' has a default for earlier rows"),
        ("widen", 0, "column 'b' was int and is long"),
        ("rename_part", 4, "column 'part.x' was renamed to 'part.n4'"),
        ("add_part", 5, "column 'part.n5' was added"),
        ("move", 1, "the columns have another order"),
    ):
        getattr(left, kind)(number)
        left.append(0)
        built = history.build()
        assert reasons(built) == dict.fromkeys(("both", "followed"), f"{change} in {left.path}")
    page = stack.fragment(f"/builds/{built['build']['id']}")
    assert f"{FULL}the columns have another order in {left.path}" in page


def test_harmless_changes_stay_incremental(stack: Stack) -> None:
    history = start(stack)
    left = history.inputs["left"]
    history.build()
    left.add(0)
    assert reasons(history.build()) == {}
    left.document(0)
    left.append(0)
    built = history.build()
    assert reasons(built) == {}
    assert "read whole" not in built["logs"]["both"]


def test_columns_that_return_make_a_full_build(stack: Stack) -> None:
    history = start(stack)
    left = history.inputs["left"]
    left.drop(1)
    left.append(0)
    history.build()
    left.restore_columns(0)
    left.append(0)
    change = f"column 'b' is back with its earlier values in {left.path}"
    assert reasons(history.build()) == dict.fromkeys(("both", "followed"), change)


def test_file_with_another_header_makes_a_full_build(stack: Stack) -> None:
    history = start(stack)
    left = history.inputs["left"]
    history.build()
    left.upload(1)
    assert reasons(history.build()) == {}
    left.upload_other_header(1)
    change = f"column 'a' was removed in {left.path}"
    assert reasons(history.build()) == dict.fromkeys(("both", "followed"), change)


def test_expired_snapshot_makes_a_full_build(stack: Stack) -> None:
    history = start(stack)
    left = history.inputs["left"]
    history.build()
    left.append(0)
    left.expire(0)
    built = history.build()
    reason = f"the snapshot of {left.path} that the last build read has expired"
    assert reasons(built) == {"both": reason}
    assert f"starts from nothing: {reason}" in built["logs"]["followed"]


def test_changed_output_makes_a_full_build(stack: Stack) -> None:
    history = start(stack)
    history.build()
    with stack.load(f"{history.folder}/both").update_schema() as change:
        change.rename_column("left_a", "left_z")
    history.inputs["left"].append(0)
    assert reasons(history.build()) == {"both": "something other than this code wrote the outputs last"}


def test_required_incremental_build_fails_over_changed_columns(stack: Stack) -> None:
    folder = f"/shop/inc{uuid4().hex[:8]}"
    stack.upload(f"{folder}/in", "id,v\n1,a\n")
    source = make_transform("copy", inputs=[f"{folder}/in"], output=f"{folder}/out", body="out.write_table(i0.arrow())")
    head = HEAD.replace("import transform\n", "import incremental, transform\n")
    stack.commit(
        {f"pipelines/{folder[6:]}.py": f"{head}@incremental(require_incremental=True)\n{source}"},
    )
    assert stack.build(f"{folder}/out")["state"] == "COMPLETED"
    with stack.load(f"{folder}/in").update_schema() as change:
        change.rename_column("v", "w")
    build = stack.build(f"{folder}/out")
    assert build["state"] == "FAILED"
    message = f"this build cannot be incremental: column 'v' was renamed to 'w' in {folder}/in"
    assert build["jobs"][0]["error"]["message"].endswith(message)
    assert stack.rows(f"{folder}/out") == [{"id": 1, "v": "a"}]


@pytest.mark.parametrize("examples", [3, pytest.param(150, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
def test_any_history_ends_as_a_full_build(stack: Stack, examples: int) -> None:
    @hypothesis_settings(max_examples=examples, phases=[Phase.generate], database=None)
    @given(any_steps(8))
    def check(steps: list[Step]) -> None:
        start(stack).go(steps)

    check()
