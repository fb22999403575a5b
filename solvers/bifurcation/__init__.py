"""Branch points of a curve of fixed points, and every branch through them."""
