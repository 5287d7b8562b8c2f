"""Pages of pull requests.

Modules:
    pull: the tabs, and what their forms do.
    conflicts: files that conflict, and their form.
    data: the tabs Data and Schema.
    labels: labels, and who sees to a pull request.
    refused: what a refused form keeps.
    queue: the merge queue of a repository.
"""
