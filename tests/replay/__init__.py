"""Tapes that run again."""
