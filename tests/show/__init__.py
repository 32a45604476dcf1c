"""Tapes as one sees them."""
