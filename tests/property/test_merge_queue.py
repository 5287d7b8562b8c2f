"""The merge queue as a machine: any order of wishes, tests, pushes, approvals lost and workers that die between two steps.

A commit is the tuple of what it consists of, so that what landed can be read off the target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from webapp.pulls.rules.queue import TESTED_AT_ONCE, Act, Entry, Fate, Step, list_steps
from webapp.pulls.rules.states import QUEUE_GOES_ON, QueueState

PLACES = st.integers(0, 20)


@dataclass
class Wish:
    """What is stored of one entry, and what is true of its pull request."""

    entry: Entry
    place: int = 0
    verdict: str = ""
    """How its test ends, once it does."""


class MergeQueue(RuleBasedStateMachine):
    """People ask, withdraw and push; tests end; the target moves; a worker carries the steps out, or some of them."""

    def __init__(self) -> None:
        super().__init__()
        self.head = "0"
        self.wishes: list[Wish] = []
        self.tested_green: set[str] = set()
        self.landed: list[int] = []
        self.others = 0

    # --- people and machines ----------------------------------------------------------------------

    @rule(objection=st.sampled_from(["", "", "An approval is missing."]))
    def ask(self, objection: str) -> None:
        state = QueueState.WAITING if objection else QueueState.QUEUED
        entry = Entry(len(self.wishes) + 1, state, objection=objection, may_come=True)
        self.wishes.append(Wish(entry, 0 if objection else self.next_place()))

    @precondition(lambda self: self.going_on())
    @rule(at=PLACES, departure=st.sampled_from(["The pull request is closed.", "The head moved."]))
    def depart(self, at: int, departure: str) -> None:
        self.change(self.pick(at), departure=departure)

    @precondition(lambda self: self.going_on())
    @rule(at=PLACES, may_come=st.booleans())
    def object(self, at: int, may_come: bool) -> None:
        self.change(self.pick(at), objection="An approval became void.", may_come=may_come)

    @precondition(lambda self: self.going_on())
    @rule(at=PLACES)
    def approve(self, at: int) -> None:
        self.change(self.pick(at), objection="")

    @precondition(lambda self: self.in_state(QueueState.TESTING))
    @rule(at=PLACES, is_green=st.booleans())
    def end_test(self, at: int, is_green: bool) -> None:
        testing = self.in_state(QueueState.TESTING)
        self.end(testing[at % len(testing)], is_green=is_green)

    @rule()
    def push_to_target(self) -> None:
        self.others += 1
        self.head += f" push{self.others}"

    @rule(conflicts=st.booleans(), steps=st.integers(0, 12))
    def work(self, conflicts: bool, steps: int) -> None:
        """Carry out some of the steps of one look: a worker may die after any of them."""
        for step in self.look()[:steps]:
            self.take(step, conflicts=conflicts)

    @precondition(lambda self: self.in_state(QueueState.LANDING))
    @rule()
    def carry_on_merge(self) -> None:
        """Move the target if it still is what the merge was made for, as Git does it."""
        [wish] = self.in_state(QueueState.LANDING)
        if wish.entry.fate == Fate.OPEN:
            self.merge(wish)

    # --- what a worker does -----------------------------------------------------------------------

    def look(self) -> list[Step]:
        line = sorted(self.going_on(), key=lambda wish: (wish.place == 0, wish.place, wish.entry.id))
        steps = list_steps([wish.entry for wish in line], head=self.head)
        assert len({step.entry for step in steps}) == len(steps), "one step for each"
        return steps

    def take(self, step: Step, *, conflicts: bool = False) -> None:
        wish = self.wishes[step.entry - 1]
        match step.act:
            case Act.WITHDRAW:
                assert wish.entry.departure
                self.move(wish, QueueState.WITHDRAWN)
            case Act.EJECT:
                self.eject(wish, step)
            case Act.JOIN:
                self.move(wish, QueueState.QUEUED)
                wish.place = self.next_place()
            case Act.TEST if conflicts:
                self.move(wish, QueueState.RED, base=step.on, tested="", failure="Conflicts in a.py.")
            case Act.TEST:
                tested = f"{step.on} {wish.entry.id}"
                self.move(wish, QueueState.TESTING, base=step.on, tested=tested, failure="")
            case Act.RETEST:
                self.move(wish, QueueState.QUEUED, base="", tested="", failure="", fate=Fate.OPEN)
            case Act.LAND:
                self.move(wish, QueueState.LANDING)
            case Act.FINISH:
                self.move(wish, QueueState.LANDED)

    def eject(self, wish: Wish, step: Step) -> None:
        assert step.reason, "who is ejected is told why"
        if wish.entry.state == QueueState.RED and not wish.entry.objection:
            assert wish.entry.base == self.head, "nobody is ejected for the sake of one who has not landed"
            assert step.reason == wish.entry.failure
        self.move(wish, QueueState.EJECTED)

    def merge(self, wish: Wish) -> None:
        if self.head != wish.entry.base:
            self.change(wish, fate=Fate.LOST)
            return
        assert wish.entry.tested in self.tested_green, "what lands is what was tested green"
        before = [other for other in self.going_on() if 0 < other.place < wish.place]
        assert not before, "who stands before lands or leaves first"
        self.head = wish.entry.tested
        self.landed.append(wish.entry.id)
        self.change(wish, fate=Fate.LANDED)

    def end(self, wish: Wish, *, is_green: bool) -> None:
        if is_green:
            self.tested_green.add(wish.entry.tested)
            self.move(wish, QueueState.GREEN)
        else:
            self.move(wish, QueueState.RED, failure="Build 7 failed.")

    # --- the world --------------------------------------------------------------------------------

    def move(self, wish: Wish, to: QueueState, **values: str | Fate) -> None:
        assert wish.entry.state in to.earlier, f"{wish.entry.state} to {to}"
        self.change(wish, state=to, **values)

    def change(self, wish: Wish, **values: object) -> None:
        wish.entry = replace(wish.entry, **values)  # type: ignore[arg-type]  # each by its name

    def next_place(self) -> int:
        return max((wish.place for wish in self.wishes), default=0) + 1

    def going_on(self) -> list[Wish]:
        return [wish for wish in self.wishes if wish.entry.state in QUEUE_GOES_ON]

    def in_state(self, state: QueueState) -> list[Wish]:
        return [wish for wish in self.wishes if wish.entry.state == state]

    def pick(self, at: int) -> Wish:
        going_on = self.going_on()
        return going_on[at % len(going_on)]

    @invariant()
    def one_lands_at_a_time(self) -> None:
        assert len(self.in_state(QueueState.LANDING)) <= 1

    @invariant()
    def few_are_tested_at_once(self) -> None:
        assert len(self.in_state(QueueState.TESTING)) <= TESTED_AT_ONCE + 1  # with one that a crash left to be retested

    @invariant()
    def the_target_has_what_landed_and_nothing_of_what_did_not(self) -> None:
        parts = [int(part) for part in self.head.split()[1:] if not part.startswith("push")]
        assert parts == self.landed

    def teardown(self) -> None:
        """Once people are still, everything ends, but what waits for an approval."""
        for _ in range(20 * (len(self.wishes) + 1)):
            for wish in self.in_state(QueueState.LANDING):
                if wish.entry.fate == Fate.OPEN:
                    self.merge(wish)
            steps = self.look()
            for step in steps:
                self.take(step)
            testing = self.in_state(QueueState.TESTING)
            for wish in testing:
                self.end(wish, is_green=True)
            if not steps and not testing and not self.in_state(QueueState.LANDING):
                break
        left = [wish.entry for wish in self.going_on()]
        assert all(entry.state == QueueState.WAITING and entry.objection for entry in left), left
        joined = [wish.place for number in self.landed for wish in [self.wishes[number - 1]]]
        assert joined == sorted(joined), "order is kept"


def test_the_merge_queue_lands_in_order_what_was_tested_and_forgets_nobody() -> None:
    run_state_machine_as_test(
        MergeQueue, settings=hypothesis_settings(max_examples=150, stateful_step_count=40, deadline=None)
    )
