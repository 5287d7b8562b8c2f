"""Pages of repositories, and Git over HTTP."""
