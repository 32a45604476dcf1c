"""Ops and rules."""
