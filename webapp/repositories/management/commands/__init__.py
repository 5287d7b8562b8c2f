"""Commands for repositories.

Modules:
    accept_repository: going on with another copy of a repository.
    rebuild_commits: rows of commits, written anew from Git.
"""
