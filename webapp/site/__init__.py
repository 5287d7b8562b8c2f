"""What needs every app and belongs to none: home, search, the guide and the style guide.

Modules:
    pages: what these pages show.
    views: the pages.
    urls: their addresses.
    templatetags: what pages of other apps show of pull requests.
    apps: the app, for Django.
    management: commands of `manage.py`.
"""
