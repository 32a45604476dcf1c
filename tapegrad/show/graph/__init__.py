"""A tape as a graph: for networkx, for Graphviz, and as a picture that is drawn without it."""
