"""Pages of repositories, and Git over HTTP.

Modules:
    manage: the list of repositories, a new one, and settings.
    files: folders, files, the editor.
    history: commits, comparisons and branches.
    git_http: clone, fetch and push.
    common: what the pages share.
"""
