"""Printing of tapes: as plain text, and on a terminal."""

VIEWS = ("table", "compact", "tree", "mirror", "summary")  # laid out by rich
WRITTEN = ("plain", "compact")  # text without rich
FORMATS = ("plain", *VIEWS, "python", "steps")
"""The formats of `Tape.format`, `Tape.show` and the command line."""
GROUPS = ("line", "call")
