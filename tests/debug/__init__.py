"""The debugging tools."""
