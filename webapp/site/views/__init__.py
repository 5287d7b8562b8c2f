"""The site's own pages.

Modules:
    home: the home page, the state of this server, and search.
    guide: the guide.
    tour: how the tour of the demo ends.
    styleguide: every component with made-up data.
"""
