"""The Celery workers of an installation."""

THREADS = {"quick": 28, "builds": 6}
"""Threads of each worker, by queue. Most wait for a process in the sandbox."""
