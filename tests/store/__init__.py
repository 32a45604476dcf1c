"""Saved tapes."""
