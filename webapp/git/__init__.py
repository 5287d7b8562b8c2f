"""Bare Git repositories: objects, branches, merges, diffs and the smart HTTP protocol. Knows no user and no database.

Modules:
    repository: one bare repository: its branches, commits and files.
    objects: commits, folders and files, found and written; nothing else opens a repository.
    changes: changes of files, applied to the files of a commit.
    history: what changed a path, and when.
    compare: which files of two commits differ, and how.
    merges: merges of two commits, conflicts, rebases, reverts.
    landing: the files that a merge changes, and which of these changes a review has shown.
    program: the git program, with limits.
    values: plain values that it hands out.
    following: where lines of one commit are in another.
    diff: code differences: files, hunks and lines.
    colours: syntax colours of a text.
    texts: encodings, byte order marks and line ends of text files.
    conflicts: files that a merge leaves open, and how they are settled.
    entries: the keys and values of a TOML file, told apart where both sides change them.
    paths: how file names are written as text, and which may be written.
    trailers: trailers of commit messages, such as co-authors.
    http_backend: clone, fetch and push.
    identity: whose copy a repository is, and how new.
    fingerprint: whether its branches may have moved.
    locks: whose lock it is that lies in a repository.
    errors: what can go wrong.
"""
