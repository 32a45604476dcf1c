"""A tape in a file: how it is written, read, and what the file looks like."""
