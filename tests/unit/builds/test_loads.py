"""Uploads that are loaded again: the same rows as before, in the same order, or a reason that names the way out."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from webapp.builds.rules.loads import ADD, REPLACE, BranchWrite, Load, LoadedFile, find_repeat
from webapp.datasets.rules.transactions import APPEND, SNAPSHOT

uploads = st.lists(st.sampled_from([REPLACE, ADD]), min_size=1, max_size=8).map(
    lambda modes: [LoadedFile(f"job{n}", f"{n}.csv", f"sha{n}", "csv", mode) for n, mode in enumerate(modes)]
)


def write(file: LoadedFile, *, is_kept: bool = True) -> BranchWrite:
    return BranchWrite("ines", file.mode == REPLACE, True, file.name, file if is_kept else None)


def apply(files: list[LoadedFile] | tuple[LoadedFile, ...], rows: tuple[str, ...]) -> tuple[str, ...]:
    for file in files:
        rows = (file.job,) if file.mode == REPLACE else (*rows, file.job)
    return rows


@given(uploads, st.lists(st.text(max_size=2), max_size=3).map(tuple))
def test_the_repeat_makes_what_all_uploads_made_on_whatever_there_is(
    files: list[LoadedFile], base: tuple[str, ...]
) -> None:
    repeat = find_repeat([write(file) for file in files], branch="rates")
    assert repeat.problem == ""
    assert apply(repeat.files, base) == apply(files, base)
    assert [file.mode for file in repeat.files].count(REPLACE) <= 1


@given(uploads, st.data())
def test_what_counts_and_is_no_kept_file_is_named(files: list[LoadedFile], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(files) - 1))
    by_client = data.draw(st.booleans())
    line = [write(file, is_kept=place != n) for n, file in enumerate(files)]
    if by_client:
        line[place] = BranchWrite("olek", files[place].mode == REPLACE)
    repeat = find_repeat(line, branch="rates")
    is_replaced = any(file.mode == REPLACE for file in files[place + 1 :])
    assert bool(repeat.problem) is not is_replaced
    if repeat.problem:
        assert repeat.files == ()
        assert repeat.problem.endswith("load the file on rates again.")
        assert ("olek wrote otherwise" if by_client else f"the file {files[place].name} is not kept") in repeat.problem


def test_a_load_is_named_by_all_that_it_is() -> None:
    file = LoadedFile("job", "a.csv", "sha", "csv", ADD, delimiter=";", has_header=False, types={"k": "string"})
    load = Load("/shop/rates", "merge", (file,))
    assert Load.from_json(json.loads(json.dumps(load.as_json()))) == load
    others = (Load("/shop/rates", "other", (file,)), Load("/shop/rates", "merge", (file, file)))
    assert len({load.digest, *(other.digest for other in others)}) == 3
    assert (load.type, Load("/x/y", "", (LoadedFile("j", "n", "s", "csv", REPLACE), file)).type) == (APPEND, SNAPSHOT)
