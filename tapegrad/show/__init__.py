"""Looking at a tape: as plain text, and on a terminal."""
