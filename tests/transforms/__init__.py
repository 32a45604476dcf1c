"""Gradients, and other tapes made of a tape."""
