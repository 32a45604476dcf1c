"""Compilation: functions that keep tapes, the dependencies of these tapes, and the code that runs them."""
