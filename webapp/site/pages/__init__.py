"""What the site's own pages show.

Modules:
    home: what waits, what happens and what happened.
    activity: what happened, back to the beginning.
    search: everything that has a name.
    shell: what the frame of every page counts.
    guide: the guide, from Markdown files.
    tour: five steps through the demo.
    styleguide: made-up data for the style guide.
"""
