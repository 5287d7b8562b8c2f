"""The fault tier: an installation under mixed load, with one fault after another, and what must hold after each."""
