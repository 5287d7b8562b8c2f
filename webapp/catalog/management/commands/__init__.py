"""Commands for the catalog.

Modules:
    collect_orphans: files of tables that nothing refers to, removed now.
"""
