"""A tape in a file: writing, reading, and the file's format."""
