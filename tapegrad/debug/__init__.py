"""Asking a tape what went wrong: explain, find, step, profile."""
