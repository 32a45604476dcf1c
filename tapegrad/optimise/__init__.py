"""Optimisation: passes, each a function from a tape to a new tape that computes the same."""
