"""What is written: the artifact of a comparison, and the rows of a table."""
