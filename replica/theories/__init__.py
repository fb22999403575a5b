"""How a model is solved: one file a theory."""
