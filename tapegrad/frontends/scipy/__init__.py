"""How SciPy spells the ops. SciPy is not required: see `frontends.imported`."""
