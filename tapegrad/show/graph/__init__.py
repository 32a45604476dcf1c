"""A tape as a graph: for networkx, for Graphviz, and as a picture drawn without it."""
