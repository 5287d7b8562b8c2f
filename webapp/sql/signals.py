"""What queries announce, inside the atomic block that records the fact; act on commit of the block."""

from django.dispatch import Signal

query_finished = Signal()
"""query: Query that has come to an end, as it was when its worker took it."""
