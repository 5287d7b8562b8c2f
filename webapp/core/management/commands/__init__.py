"""Commands of the whole installation.

Modules:
    fsck: is everything there that the installation promises to keep?
"""
