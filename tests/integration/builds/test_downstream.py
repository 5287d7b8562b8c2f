"""What is made from a dataset, looked up step by step: the same as all JobSpecs together say."""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import TYPE_CHECKING

import pytest
from django.apps import apps

from tests.factories.build_rows import World, a_jobspec, a_world
from webapp.builds.models import PublishedInput, PublishedSpec
from webapp.builds.queries import planning, specs
from webapp.builds.rules import lineage
from webapp.datasets.models import Dataset

if TYPE_CHECKING:
    from pathlib import Path

    from jobs.protocol import JobSpec

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
CHAIN = ("feature", "develop", "master")


@pytest.fixture
def world(home: Path) -> World:
    """Return a repository with the branches of the chain."""
    world = a_world()
    for branch in ("develop", "feature"):
        world.branch(branch)
    return world


def _draw_specs(random: Random) -> list[JobSpec]:
    """Return JobSpecs that read what others make, in loops too."""
    names = ["raw", *map(str, range(12))]
    return [
        a_jobspec(
            f"f{number}",
            inputs=[f"/shop/{other}" for other in random.sample(names, 3)],
            outputs=[f"/shop/{number}"],
        )
        for number in random.sample(range(12), 6)
    ]


def _list_below_of_all(path: str) -> set[str]:
    """Return what all JobSpecs of the chain together say."""
    makers = lineage.find_makers(specs=map(planning.read_spec, PublishedSpec.objects.all()), chain=CHAIN)
    below: set[str] = set()
    while new := {
        output for output, spec in makers.items() if {path, *below} & {entry.path for entry in spec.inputs}
    } - {
        path,
        *below,
    }:
        below |= new
    return below


@pytest.mark.parametrize("seed", range(8))
def test_what_lies_below_is_what_all_jobspecs_say(world: World, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - examples, no secrets
    for branch in CHAIN:
        world.publish(*_draw_specs(random), branch=branch)
    for number in range(12):
        path = f"/shop/{number}"
        below = planning.list_below([path], CHAIN)
        assert (len(below), set(below)) == (len(set(below)), _list_below_of_all(path))
        assert planning.list_below([path], CHAIN, most=2) == below[:2]


def test_an_output_that_an_earlier_branch_makes_from_something_else_lies_below_no_more(world: World) -> None:
    world.publish(a_jobspec("a", inputs=["/shop/raw"], outputs=["/shop/a"]))
    world.publish(a_jobspec("b", inputs=["/shop/a"], outputs=["/shop/b"]), branch="develop")
    world.publish(a_jobspec("a", inputs=["/shop/else"], outputs=["/shop/a"]), branch="feature")
    assert planning.list_below(["/shop/raw"], ("master",)) == ["/shop/a"]
    assert planning.list_below(["/shop/raw"], ("develop", "master")) == ["/shop/a", "/shop/b"]
    assert planning.list_below(["/shop/raw"], CHAIN) == []
    assert planning.list_below(["/shop/else"], CHAIN) == ["/shop/a", "/shop/b"]
    world.publish(branch="feature")
    assert planning.list_below(["/shop/raw"], CHAIN) == ["/shop/a", "/shop/b"]


@pytest.mark.parametrize("seed", range(1, 4))
def test_lineage_is_drawn_as_from_all_jobspecs(world: World, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - examples, no secrets
    for branch in CHAIN:
        world.publish(*_draw_specs(random), branch=branch)
    shown = specs.read_lineage(world.maker, dataset=Dataset.objects.get(path="/shop/raw"), branch="feature")
    assert shown.chain == ("feature", "master")
    graph = lineage.walk(
        specs=map(planning.read_spec, PublishedSpec.objects.all()), chain=shown.chain, path="/shop/raw"
    )
    assert {node.path: node.depth for node in shown.nodes} == graph.depths
    assert shown.edges == graph.edges
    assert len(graph.depths) > 1


def test_migration_fills_in_what_published_jobspecs_read(world: World) -> None:
    world.publish(
        a_jobspec("a", inputs=["/shop/raw", "/shop/raw", "/shop/else"], outputs=["/shop/a"]),
        a_jobspec("b", outputs=["/shop/b"]),
    )
    rows = PublishedInput.objects.order_by("path").values_list("spec__function", "branch", "path")
    published = list(rows)
    assert published == [("pipelines.m:a", "master", "/shop/else"), ("pipelines.m:a", "master", "/shop/raw")]
    PublishedInput.objects.all().delete()
    import_module("webapp.builds.migrations.0006_published_inputs").copy_inputs(apps, None)
    assert list(rows.all()) == published
