"""What templates of other apps take from the site.

Modules:
    shell: how much is unread, and the tabs of a repository and a branch.
"""
