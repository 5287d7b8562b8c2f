"""Commands for leased work.

Modules:
    sweep: the loop that takes up what was lost.
"""
