"""Where programs run: in which process and precision, what is kept of them, and what is said."""
