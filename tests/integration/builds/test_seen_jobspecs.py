"""The JobSpecs that a branch sees, and whether each is fresh, at the cost of what is shown of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from random import Random
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories.build_rows import World, a_jobspec, a_world
from tests.factories.clients import read_pages
from webapp.builds.models import Build, PublishedSpec
from webapp.builds.queries import planning, specs
from webapp.builds.rules import lineage
from webapp.core.errors import InvalidInput
from webapp.datasets.models import Dataset

if TYPE_CHECKING:
    from pathlib import Path

    from rest_framework.test import APIClient

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
CHAIN = ("feature", "master")
MANY = 30


@pytest.fixture
def world(home: Path) -> World:
    """Return a repository with two branches."""
    made = a_world()
    made.branch("feature")
    return made


def _publish_chain(world: World) -> None:
    """Publish JobSpecs each of which reads what the one before makes."""
    world.publish(
        *(
            a_jobspec(f"f{number:02d}", inputs=[f"/shop/{number - 1:02d}"], outputs=[f"/shop/{number:02d}"])
            for number in range(1, MANY + 1)
        )
    )


def _count_loaded(call: Callable[[], object]) -> tuple[int, int]:
    """Return how many queries something takes, and how many whole JobSpecs it reads."""
    loaded: list[int] = []
    from_db = PublishedSpec.from_db.__func__

    def note(cls: type[PublishedSpec], *row: object) -> PublishedSpec:
        loaded.append(1)
        return from_db(cls, *row)

    with pytest.MonkeyPatch.context() as patch, CaptureQueriesContext(connection) as queries:
        patch.setattr(PublishedSpec, "from_db", classmethod(note))
        call()
    return len(queries), len(loaded)


@pytest.mark.parametrize("seed", range(8))
def test_a_branch_sees_its_own_and_what_else_its_chain_makes(world: World, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - examples, no secrets
    for branch in CHAIN:
        names = [f"/shop/{number}" for number in range(9)]
        random.shuffle(names)
        outputs = [names[:2], names[2:3], names[3:6]]
        world.publish(*(a_jobspec(f"f{number}", outputs=each) for number, each in enumerate(outputs)), branch=branch)
    rows = [planning.read_spec(row) for row in PublishedSpec.objects.all()]
    makers = lineage.find_makers(specs=rows, chain=CHAIN)
    listed = specs.list_jobspecs(repository=world.repository, branch="feature")
    assert {spec.pk for spec in listed} == {spec.id for spec in makers.values()}
    firsts = [min(output["path"] for output in spec.spec["outputs"]) for spec in listed]
    assert firsts == sorted(firsts)
    seen = specs.list_seen(repository=world.repository, branch="feature")
    assert {spec.id: spec.paths for spec in seen} == {
        spec.id: tuple(sorted(spec.output_paths)) for spec in makers.values()
    }


def test_a_page_of_jobspecs_loads_no_others(world: World, api_client: Callable[..., APIClient]) -> None:
    _publish_chain(world)
    client = api_client(world.user)

    def list_names(*, limit: int) -> list[str]:
        pages = read_pages(client, f"/api/v1/repositories/shop/jobspecs?branch=feature&limit={limit}")
        return [spec["outputs"][0]["path"] for spec in chain.from_iterable(pages)]

    paths = [f"/shop/{number:02d}" for number in range(1, MANY + 1)]
    assert list_names(limit=4) == list_names(limit=MANY) == paths
    few, more = (
        _count_loaded(
            lambda limit=limit: client.get(f"/api/v1/repositories/shop/jobspecs?branch=feature&limit={limit}")
        )
        for limit in (2, 20)
    )
    assert few[0] == more[0]
    assert few[1] <= 2 + 1


def test_freshness_costs_the_same_however_much_lies_above(world: World) -> None:
    _publish_chain(world)
    costs = set()
    for number in (1, MANY):
        dataset = Dataset.objects.create(path=f"/shop/{number:02d}", table=f"shop.d{number}", created_by=world.user)
        costs.add(
            _count_loaded(
                lambda dataset=dataset: specs.read_surroundings(world.maker, dataset=dataset, branch="feature")
            )
        )
    assert len(costs) == 1, "queries, JobSpecs"


def test_a_loop_far_above_is_refused_by_the_plan_and_hides_no_freshness(world: World) -> None:
    _publish_chain(world)
    world.publish(a_jobspec("f01", inputs=[f"/shop/{MANY:02d}"], outputs=["/shop/01"]), branch="feature")
    dataset = Dataset.objects.create(path=f"/shop/{MANY:02d}", table="shop.last", created_by=world.user)
    node = specs.read_surroundings(world.maker, dataset=dataset, branch="feature").node
    assert node.why == f"Input /shop/{MANY - 1:02d} has no data yet"
    build = Build(branch="feature", chain=list(CHAIN), targets=[dataset.path])
    with pytest.raises(InvalidInput, match="made from each other"):
        planning.make_plan(build=build, by=world.maker)
