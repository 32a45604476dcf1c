"""Debugging of tapes: explain, find, step, profile."""
