"""What is kept between requests is bounded, and never shows one branch's table to another, nor one caller's to another."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories.catalog import Catalog, add_column, set_ref
from webapp.catalog import ports
from webapp.catalog.storage import metadata_files, rendered
from webapp.core.byte_cache import ByteCache

if TYPE_CHECKING:
    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
ORDERS = "shop.orders"
BRANCHES = (None, "a", "b", "feature/c.d", "plain", "unknown")


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """Nothing is known from other tests."""
    rendered.forget_all()
    metadata_files.forget_all()
    yield
    rendered.forget_all()


@pytest.fixture
def orders(catalog: Catalog) -> Catalog:
    """A table on which every branch has something else: schema, head, history."""
    catalog.create_table(ORDERS)
    catalog.append(ORDERS)
    for branch in ("a", "b", "feature/c.d"):
        writer = catalog.on(branch)
        writer.append(ORDERS)
        view = writer.load(ORDERS).metadata
        assert writer.commit(ORDERS, *add_column(view, f"only_{branch[0]}")).status == 200
    number = catalog.load(ORDERS).metadata["current-snapshot-id"]
    assert catalog.commit(ORDERS, set_ref("plain", number)).status == 200
    catalog.append(ORDERS)
    return catalog


def seen(catalog: Catalog, query: str = "") -> dict[str | None, Any]:
    """The table as each branch sees it."""
    return {branch: catalog.on(branch).load(ORDERS, query).body for branch in BRANCHES}


def afresh(catalog: Catalog, query: str = "") -> dict[str | None, Any]:
    """The same with nothing kept from one answer to the next."""
    found = {}
    for branch in BRANCHES:
        rendered.forget_all()
        metadata_files.forget_all()
        found[branch] = catalog.on(branch).load(ORDERS, query).body
    return found


@pytest.mark.parametrize("query", ["", "snapshots=refs"])
def test_what_is_kept_is_what_would_be_made_afresh(orders: Catalog, query: str) -> None:
    expected = afresh(orders, query)
    assert len({str(body["metadata"]["current-schema-id"]) for body in expected.values()}) == 4
    for _ in range(2):
        assert seen(orders, query) == expected
    assert seen(orders, "snapshots=all") == afresh(orders)


def test_a_commit_is_seen_at_once_by_everybody_and_answered_as_it_will_be_loaded(orders: Catalog) -> None:
    seen(orders)
    for branch in (None, "a", "b", "unknown", "plain"):
        answered = orders.on(branch).append(ORDERS)
        assert answered.status == 200
        loaded = orders.on(branch).load(ORDERS)
        assert (answered.metadata, answered.headers["etag"]) == (loaded.metadata, loaded.headers["etag"])
        assert "config" not in answered.body
        assert seen(orders) == afresh(orders)


def test_tags_differ_between_branches_modes_and_files(orders: Catalog) -> None:
    queries = ("", "snapshots=refs")
    tags = {
        (branch, query): orders.on(branch).load(ORDERS, query).headers["etag"]
        for branch in BRANCHES
        for query in queries
    }
    assert len(set(tags.values())) == len(tags)
    for (branch, query), tag in tags.items():
        for other in BRANCHES:
            answer = orders.on(other).load(ORDERS, query, **{"if-none-match": tag})
            assert answer.status == (304 if other == branch else 200), (branch, other)
    orders.on("a").append(ORDERS)
    for (branch, query), tag in tags.items():
        assert orders.on(branch).load(ORDERS, query, **{"if-none-match": tag}).status == 200


@pytest.mark.parametrize("branch", [None, "a", "plain"])
def test_unchanged_is_said_without_reading_the_metadata(
    orders: Catalog, monkeypatch: pytest.MonkeyPatch, branch: str | None
) -> None:
    caller = orders.on(branch)
    tag = caller.load(ORDERS).headers["etag"]

    def refuse(location: str) -> Any:
        raise AssertionError(location)

    monkeypatch.setattr(metadata_files, "read", refuse)
    assert caller.load(ORDERS, **{"if-none-match": f'"other", {tag}'}).status == 304
    with pytest.raises(AssertionError, match="metadata"):
        caller.load(ORDERS, **{"if-none-match": '"other"'})


def test_a_branch_that_falls_back_elsewhere_is_another_view_of_the_same_file(
    orders: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = ["a", "master"]
    monkeypatch.setattr(ports, "find_chain", lambda **_asked: tuple(chain))
    caller = orders.on("unknown")
    of_a = caller.load(ORDERS)
    tag = {"if-none-match": of_a.headers["etag"]}
    assert caller.load(ORDERS, **tag).status == 304
    chain[0] = "b"
    of_b = caller.load(ORDERS, **tag)
    assert of_b.status == 200
    wanted = orders.on("b").load(ORDERS).metadata
    assert of_b.metadata["current-schema-id"] == wanted["current-schema-id"] != of_a.metadata["current-schema-id"]
    assert of_b.body["metadata-location"] == of_a.body["metadata-location"]
    chain[0] = "a"
    assert caller.load(ORDERS).body == of_a.body


def test_who_may_not_see_a_table_hears_nothing_of_its_tag(
    orders: Catalog, make_user: Callable[..., User], catalog_for: Callable[..., Catalog]
) -> None:
    tag = orders.load(ORDERS).headers["etag"]
    stranger = catalog_for(make_user("stranger"))
    assert stranger.load(ORDERS, **{"if-none-match": tag}).status == 404
    assert stranger.load(ORDERS).status == 404


def test_threads_and_a_small_cache_mix_nothing_up(orders: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads have files only, no database: they render views as the requests of many branches do at once."""
    from webapp.catalog import queries
    from webapp.catalog.rules.refs import TableRef

    limit = 20_000
    monkeypatch.setattr(rendered, "_cache", ByteCache(limit, rendered._cache._size_of))
    file = queries.get_file(table=ORDERS)
    views = [queries.view_of(file, TableRef(("shop",), "orders", branch), by=None) for branch in BRANCHES]
    expected = {view.key: b"".join(rendered.render(file, view=view.key, show=view.show)) for view in views}
    assert len(set(expected.values())) == len(BRANCHES)
    wrong: list[str] = []

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(100):
            view = chance.choice(views)
            if b"".join(rendered.render(file, view=view.key, show=view.show)) != expected[view.key]:
                wrong.append(view.key)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert rendered._cache.size <= limit
    assert limit < sum(map(len, expected.values())), "else nothing was ever dropped"


def test_what_is_kept_is_bounded_by_its_bytes(orders: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendered, "_cache", ByteCache(30_000, rendered._cache._size_of))
    for _ in range(5):
        orders.on("a").append(ORDERS)
        seen(orders)
        assert rendered._cache.size <= 30_000


def test_what_is_kept_of_a_table_does_not_grow_with_its_commits(orders: Catalog) -> None:
    """What a web process held of tables grew by 10 MiB a minute of mixed use, nearly all of it versions that nobody asked for."""
    counts = set()
    for number in range(2 * metadata_files.VERSIONS):
        orders.on("a").append(ORDERS)
        seen(orders)
        if number >= metadata_files.VERSIONS:
            counts.add((len(metadata_files._cache._kept), len(rendered._cache._kept)))
    ((files, views),) = counts
    assert files == metadata_files.VERSIONS
    assert views <= metadata_files.VERSIONS * len(BRANCHES)
