"""Transforms of this repository."""
