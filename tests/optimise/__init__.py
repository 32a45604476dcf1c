"""The passes, and loops."""
