"""What was used lately stays, within so many bytes, whoever asks at once."""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace

import pytest

from webapp.core.byte_cache import IDLE_S, ByteCache, Versions


def make(limit: int) -> ByteCache[str, bytes]:
    return ByteCache(limit, len)


def test_the_longest_unused_goes_first() -> None:
    cache = make(10)
    for key in "abc":
        cache.add(key, b"xxx")
    assert cache.get("a") == b"xxx"
    cache.add("d", b"xxx")
    assert [cache.get(key) is not None for key in "abcd"] == [True, False, True, True]
    assert cache.size == 9


def test_a_value_that_is_replaced_or_dropped_counts_no_more() -> None:
    cache = make(10)
    cache.add("a", b"xxxxxxxx")
    cache.add("a", b"xx")
    cache.add("b", b"xxxxxxxx")
    assert (cache.get("a"), cache.size) == (b"xx", 10)
    cache.drop("b")
    cache.drop("b")
    assert (cache.get("b"), cache.size) == (None, 2)
    cache.clear()
    assert (cache.get("a"), cache.size) == (None, 0)


def test_one_that_is_too_large_stays_alone_until_the_next() -> None:
    cache = make(10)
    cache.add("a", b"x")
    cache.add("huge", b"x" * 100)
    assert (cache.get("a"), cache.size) == (None, 100)
    assert cache.get("huge") is not None
    cache.add("b", b"x")
    assert (cache.get("huge"), cache.size) == (None, 1)


def test_old_versions_go_with_all_that_is_kept_of_them() -> None:
    versions = Versions[tuple[str, int, str]](lambda key: key[:2], most=2)
    cache = ByteCache[tuple[str, int, str], bytes](1000, len, versions=versions)
    for number in range(5):
        for view in ("all", "some"):
            cache.add(("orders", number, view), b"xx")
            cache.add(("parts", 0, f"{view} {number}"), b"x")
    assert [cache.get(("orders", number, "all")) is not None for number in range(5)] == [False] * 3 + [True] * 2
    assert cache.size == 2 * 2 * 2 + 10
    assert cache.get(("orders", 3, "some")) is not None
    cache.add(("orders", 5, "all"), b"xx")
    assert [number for number in range(6) if cache.get(("orders", number, "some")) is not None] == [3]
    cache.drop(("orders", 5, "all"))
    for view in ("all", "some"):
        cache.drop(("orders", 3, view))
    assert (cache.size, list(cache._things)) == (10, ["parts"])
    cache.add(("rest", 0, "all"), b"x" * 1000)
    assert (cache.size, list(cache._things)) == (1000, ["rest"])


def test_what_nobody_has_used_for_a_while_goes_when_something_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("webapp.core.byte_cache.time", SimpleNamespace(monotonic=lambda: now))
    cache = make(1000)
    cache.add("used", b"x")
    cache.add("idle", b"x")
    now += IDLE_S - 1
    assert cache.get("used") == b"x"
    now += 2
    cache.add("new", b"x")
    assert (cache.get("idle"), cache.get("used"), cache.size) == (None, b"x", 2)
    now += IDLE_S + 1
    assert cache.get("new") == b"x", "nothing is looked for that costs nothing"


def test_threads_get_what_belongs_to_their_key_and_the_bytes_add_up() -> None:
    cache = make(500)
    wrong: list[str] = []

    def use(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(2000):
            key = str(chance.randrange(60))
            found = cache.get(key)
            if found is None:
                cache.add(key, key.encode() * chance.randrange(1, 20))
            elif found.replace(key.encode(), b""):
                wrong.append(key)
            if chance.random() < 0.1:
                cache.drop(key)

    threads = [threading.Thread(target=use, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert 0 <= cache.size <= 500
    kept = [cache.get(str(number)) for number in range(60)]
    assert cache.size == sum(len(value) for value in kept if value is not None)
