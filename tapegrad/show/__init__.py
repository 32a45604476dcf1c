"""Looking at a tape: as plain text, and on a terminal."""

FORMATS = ("table", "compact", "tree", "mirror", "summary")
GROUPS = ("line", "call")
