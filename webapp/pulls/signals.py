"""What pull requests announce."""

from django.dispatch import Signal

pull_changed = Signal()
"""`pull`: its head, datasets, reviews or state changed; open pages may refresh."""
