"""What clashes in a TOML file is told apart entry by entry, and taking a side of all is that side."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.git.conflicts import Clash, ConflictedFile, ConflictMarks, Resolution, Segment, settle, split_entries
from webapp.git.entries import find_table, name_entries, read_entries
from webapp.git.errors import BadChange

OWNERS = '[owners]\n"/nyc" = ["ines"]\n'


def a_file(*segments: Segment) -> ConflictedFile:
    marks = ConflictMarks(7, "a", "b")
    return ConflictedFile(path="pipeline.toml", ours=None, theirs=None, segments=segments, marks=marks)


def test_rules_in_neighbouring_lines_clash_one_by_one() -> None:
    ours = '# who clean asks\n"/nyc/clean" = ["olek"]\n"/nyc/raw" = [\n  "mira",\n]\n"/nyc/own" = ["ines"]\n'
    theirs = '# who clean asks\n"/nyc/clean" = ["wim"]\n"/nyc/raw" = [\n  "mira",\n]\n"/nyc/their" = ["rolf"]\n'
    split = split_entries((OWNERS, Clash(ours, theirs), "[sensitive]\n"))
    assert split == (
        OWNERS,
        Clash('# who clean asks\n"/nyc/clean" = ["olek"]\n', '# who clean asks\n"/nyc/clean" = ["wim"]\n'),
        '"/nyc/raw" = [\n  "mira",\n]\n',
        Clash('"/nyc/own" = ["ines"]\n', ""),
        Clash("", '"/nyc/their" = ["rolf"]\n'),
        "[sensitive]\n",
    )
    clashes = [segment for segment in split if isinstance(segment, Clash)]
    names = [name_entries(find_table(OWNERS), clash.ours, clash.theirs) for clash in clashes]
    assert names == ['[owners] "/nyc/clean"', '[owners] "/nyc/own"', '[owners] "/nyc/their"']


@pytest.mark.parametrize("text", ["[owners]\n", "a = [\n", "a = 1 2\n", "words\n", '"""\n'])
def test_lines_that_are_no_whole_entries_stay_as_they_are(text: str) -> None:
    assert read_entries(text) is None
    assert split_entries((Clash(text, "a = 1\n"),)) == (Clash(text, "a = 1\n"),)


def test_what_takes_long_to_tell_apart_stays_as_it_is() -> None:
    """Each line of an entry that has not ended has all before it read again."""
    start = time.process_time()
    long = "a = [\n" + "1,\n" * 100_000
    assert read_entries(long) is None
    assert find_table("[" + " " * 100_000 + "\n" * 100_000) == ""
    many = tuple(Clash(f"a{n} = [\n" + "1,\n" * 38 + "]\n", "b = 1\n") for n in range(2_000))
    assert split_entries(many) == many
    assert len(split_entries(many[:200])) == 400
    assert time.process_time() - start < 5


def test_each_place_has_a_choice_of_its_own() -> None:
    file = a_file("a\n", Clash("b\n", "c\n"), "d\n", Clash("e\n", "f\n"), Clash("g\n", "h\n"))
    chosen = Resolution(path=file.path, takes=("theirs", "both", "ours"))
    assert settle(file, chosen) == b"a\nc\nd\ne\nf\ng\n"
    for takes in (("ours",), ("ours",) * 4):
        with pytest.raises(BadChange, match=f"not for {len(takes)} of 3"):
            settle(file, Resolution(path=file.path, takes=takes))  # type: ignore[arg-type]
    with pytest.raises(BadChange, match="say what becomes of it"):
        settle(file, Resolution(path=file.path, take="ours", takes=chosen.takes))


_lines = st.lists(
    st.sampled_from(["a = 1\n", "a = 2\n", "b = 1\n", "# c\n", "\n", "d = [\n", "  1]\n", "[t]\n"]), max_size=6
)


@given(ours=_lines.map("".join), theirs=_lines.map("".join))
def test_taking_a_side_of_all_is_that_side(ours: str, theirs: str) -> None:
    split = split_entries(("x = 1\n", Clash(ours, theirs), "y = 1\n"))
    for take, text in (("ours", ours), ("theirs", theirs)):
        taken = settle(a_file(*split), Resolution(path="pipeline.toml", take=take))  # type: ignore[arg-type]
        assert taken == f"x = 1\n{text}y = 1\n".encode()
