"""What each page of a repository shows, with permissions already decided.

Modules:
    frame: what surrounds each page of a repository: the ref, its branches, what the reader may do.
    text: how the text of files is drawn: Markdown, and code with colours.
    files: folders and files, and how files are found by name.
    editor: the editor: a file, the files beside it, and what a commit of drafts would change.
    history: commits: lists of them, one, and what one ref has that another has not.
    branches: the branches of a repository.
    repositories: the list of repositories, and the settings of one.
"""
