"""Tapes on torch."""
