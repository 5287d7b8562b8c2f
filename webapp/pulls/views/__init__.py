"""Pages of pull requests, the home page, search and the style guide."""
