"""Printed tapes, one to a file, and the programs that they are of."""
