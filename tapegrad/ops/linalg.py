"""Ops of the linalg family."""
