"""Nested arguments: to leaves and back."""
