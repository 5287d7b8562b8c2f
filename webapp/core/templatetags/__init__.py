"""What templates share.

Modules:
    ui: icons, states, times, numbers and values.
    markdown: Markdown to clean HTML.
"""
