"""How SciPy's functions are written in ops. SciPy is not required: see `frontends.imported`."""
