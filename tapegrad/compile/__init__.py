"""Compilation: functions that keep tapes, what these depend on, and the code that runs them."""
