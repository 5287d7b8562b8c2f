"""Pages, fragments and event streams of builds."""
