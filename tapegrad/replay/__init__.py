"""Replay: a tape runs again on other arguments, and what may end it."""
