"""Looking at a tape: as plain text, and on a terminal."""

VIEWS = ("table", "compact", "tree", "mirror", "summary")  # that rich lays out
WRITTEN = ("plain", "compact")  # text without rich
FORMATS = ("plain", *VIEWS, "python", "steps")
"""How a tape is printed: by `Tape.format`, `Tape.show` and the command line."""
GROUPS = ("line", "call")
