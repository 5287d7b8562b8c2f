"""Reads of pull requests: `pulls` feeds services and API, `pages` makes each page's frozen context."""
