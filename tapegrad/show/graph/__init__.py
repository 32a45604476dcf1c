"""A tape as a graph: for networkx, for Graphviz, and as a picture that needs neither to be looked at."""
