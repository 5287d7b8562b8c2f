"""Bare Git repositories: objects, branches, merges, diffs and the smart HTTP protocol. Knows no user and no database."""
