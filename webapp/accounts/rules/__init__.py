"""Rules of accounts that need no database.

Modules:
    roles: roles on a repository, from least to most.
    scopes: what a token may do of what its user may.
    sight: what a reader may see of the rows of a dataset.
    agents: what a browser calls itself, in words.
    claims: what an account takes over of the claims of a sign-in provider.
    passwords: common passwords in disguise.
    throttle: how long somebody waits after wrong passwords.
    themes: themes that pages can have.
    audit: the audit log's words and its chain of digests.
"""
