"""The command line: ``replica models | show | solve | sweep | phase | eval | check | plot | info |
export | demo``. One file a command; what they share is in shared.py.
"""

from . import check, demo, evaluate, files, phase, plot, show, solve, sweep
from .shared import app, main

__all__ = ["app", "main"]

# In the order of ``replica --help``.
app.command("models")(show.models)
app.command("show")(show.show)
app.command("solve")(solve.solve)
app.command("sweep")(sweep.sweep)
app.command("eval")(evaluate.evaluate_at)
app.command("plot")(plot.plot)
app.command("phase")(phase.phase)
app.command("check", cls=check.CheckCommand)(check.check)
app.command("info")(files.describe)
app.command("export")(files.export_csv)
app.command("demo")(demo.demo)
