"""Requests at random, by a seed: whatever is sent, the answer is never a server error."""
