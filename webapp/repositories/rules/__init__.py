"""Rules of repositories that need no database.

Modules:
    names: names of repositories and branches.
    starters: what a repository begins with.
    ancestry: which branch a branch came from.
    histories: which heads reach a commit, and in which order commits are listed.
    pipeline: which folders a repository owns, from pipeline.toml.
    patterns: patterns that path rules and owners name files and datasets with.
    checks: the checks that a protection may require.
    states: states of publications.
    texts: which texts a form can edit without changing other bytes.
    webhooks: what webhooks receive, and when it is tried again.
"""
