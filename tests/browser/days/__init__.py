"""Days of six people on one installation, by clicks and keys; what they see is true of the tables."""
