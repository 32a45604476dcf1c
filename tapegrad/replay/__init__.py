"""Running a tape again."""
