"""The same work in Spark, for what one process cannot hold, and a job's tables."""
