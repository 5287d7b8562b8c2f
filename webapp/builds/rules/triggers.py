"""What starts a build."""

TRIGGERS = {
    "user": "started",
    "retry": "started",
    "pull": "started from the pull request",
    "review": "for a comparison on equal inputs",
    "queue": "for the merge queue",
    "merge": "started by a merge",
    "upload": "started by an upload",
    "demo": "started by the demo",
}
"""`Build.trigger` → how the page of a build says it."""
