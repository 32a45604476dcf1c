"""Looking at a tape: as plain text, and on a terminal."""

FORMATS = ("table", "compact", "tree", "mirror", "summary")
SOURCE = "python"  # the tape as source, highlighted
GROUPS = ("line", "call")
