"""Ops of the index family."""
