"""Passes: each a function from tape to new tape."""
