"""Functions that other systems of automatic differentiation can use, and functions of theirs on a tape."""
