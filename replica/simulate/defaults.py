"""Numbers that the command line shows before anything of a simulation is imported."""

DAMPING = 0.3
"""Of message passing: the weight on the old messages."""
MAX_STEPS = 500
"""Of message passing."""
