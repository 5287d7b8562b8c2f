"""Each part is stopped in turn, and the clock is set, while builds run: all of them end well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.factories.builds import HEAD, make_transform, wait_until
from tests.factories.supervised import SupervisedStack, supervised_stack
from tests.factories.tiers import further
from tests.faults.faults import build_clock, move_clock, stop

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
STEPS = (120, -120, 86_400, -86_400)
LASTING_S = 15


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedStack]:
    """An installation by a clock that can be moved, with transforms that take their time at the catalog."""
    folder = tmp_path_factory.mktemp("hangs")
    with supervised_stack(folder / "home", **build_clock(folder)) as running:
        running.make_repository()
        assert running.upload("/shop/raw", "a,b\n1,x\n").status_code == 201
        yield running


def start_builds(stack: SupervisedStack, name: str, *, seconds: tuple[int, ...]) -> list[tuple[str, int]]:
    """Start a build for each number of seconds; its job asks the catalog all the time, and writes at the end."""
    names = [f"{name}_{number}" for number in range(len(seconds))]
    source = HEAD
    for each, wait in zip(names, seconds, strict=True):
        body = (
            f"import time\nend = time.monotonic() + {wait}\nprint('began')\nwhile time.monotonic() < end:\n"
            "    i0._connections.load('shop.raw', '/shop/raw')\n    time.sleep(0.5)\nout.write_table(i0.arrow())"
        )
        source += make_transform(each, inputs=["/shop/raw"], output=f"/shop/{each}", body=body)
    stack.commit({f"pipelines/{name}.py": source})
    builds = [(f"/shop/{each}", stack.start_build(f"/shop/{each}")["id"]) for each in names]
    jobs = [stack.wait_for_job(build, "RUNNING")["id"] for _, build in builds]
    wait_until(lambda: all("began" in stack.log(job) for job in jobs), seconds=30)
    return builds


def check_builds(stack: SupervisedStack, builds: list[tuple[str, int]]) -> None:
    """Each has had its effect, once."""
    for path, build in builds:
        ended = stack.wait_for_build(build, seconds=180)
        assert ended["state"] == "COMPLETED", (ended, *(stack.log(job["id"]) for job in ended["jobs"]))
        assert stack.rows(path) == [{"a": 1, "b": "x"}]
        assert len(stack.history(path)) == 1
    assert stack.open_transactions() == []


@further("integration/runtime/test_deaths.py::test_each_part_that_is_stopped_is_replaced")
@pytest.mark.parametrize("part", ["web", "worker-quick", "worker-builds", "sweep", "fork-server"])
def test_builds_outlive_a_part_that_is_stopped(stack: SupervisedStack, part: str) -> None:
    builds = start_builds(stack, f"stop_{part.replace('-', '_')}", seconds=(8, 25))
    process = stack.process_of(part)

    stop(process)

    wait_until(lambda: stack.runs_again(part, since=process), seconds=60)
    check_builds(stack, builds)


@further("integration/dispatch/test_clock_steps.py::test_job_that_fails_while_the_clock_is_set_runs_again")
@pytest.mark.parametrize("step", STEPS)
def test_builds_outlive_a_clock_that_is_set(stack: SupervisedStack, step: int) -> None:
    """Set and set back: jobs end before, between and after both."""
    name = f"step_{'back' if step < 0 else 'ahead'}_{abs(step)}"
    builds = start_builds(stack, name, seconds=(4, 9, 14, 24))

    move_clock(stack.home, step, LASTING_S)

    check_builds(stack, builds)
