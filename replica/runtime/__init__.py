"""Where programs run: the process, the precision, what is kept of them, and what is said."""
