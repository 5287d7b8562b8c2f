"""Whose build comes next: users take turns, however many builds each of them asks for.

This is start-time fair queueing. A build's turn never changes, so turns (and, among equals, ids) put all builds in one
order: a build waits only for earlier ones, the first never waits for another, and a build is overtaken by as many
later ones at most as there are turns between its own and the turn that was being served when it came.
"""


def next_turn(*, last: int, served: int) -> int:
    """Return the turn of a user's new build.

    Args:
        last: the highest turn among the builds that the user has waiting or that took a worker; 0 without one.
        served: the highest turn that ever took a worker: who comes anew starts there, neither behind all nor before all.

    """
    return max(served, last + 1)
