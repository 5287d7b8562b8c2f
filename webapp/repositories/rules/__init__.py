"""Rules of repositories that need no database."""
