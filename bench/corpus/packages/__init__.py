"""Functions of public packages; nothing here imports a package before a case is built."""
