"""Functions of public packages that were drawn before any of them was tried: how far programs nobody chose get."""
