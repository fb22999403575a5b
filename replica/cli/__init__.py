"""The command line: ``replica models | show | solve | sweep | phase | eval | check | plot | info |
export | demo``. What is typed is in commands/, what is done in the files of the same names here;
what they share is in shared.py.
"""

from .commands import check, demo, evaluate, files, phase, plot, show, solve, sweep
from .shared import Command, app, main

__all__ = ["app", "main"]

# In the order of ``replica --help``.
app.command("models", cls=Command)(show.models)
app.command("show", cls=Command)(show.show)
app.command("solve", cls=Command)(solve.solve)
app.command("sweep", cls=Command)(sweep.sweep)
app.command("eval", cls=Command)(evaluate.evaluate_at)
app.command("plot", cls=Command)(plot.plot)
app.command("phase", cls=Command)(phase.phase)
app.command("check", cls=check.CheckCommand)(check.check)
app.command("info", cls=Command)(files.describe)
app.command("export", cls=Command)(files.export_csv)
app.command("demo", cls=Command)(demo.demo)
