"""The command line. ``stepgauge -h`` lists the commands; each has its own ``-h`` with an example."""

from __future__ import annotations

import signal
import sys

import typer

from stepgauge.cli.dag import dag_command
from stepgauge.cli.equiv import equiv_command
from stepgauge.cli.evaluate_best_of_n import best_of_n_command
from stepgauge.cli.evaluate_prmbench import prmbench_command
from stepgauge.cli.evaluate_processbench import processbench_command
from stepgauge.cli.filter import filter_command
from stepgauge.cli.label import label_command
from stepgauge.cli.report import report_command
from stepgauge.cli.rerank import rerank_command
from stepgauge.cli.robustness import robustness_command
from stepgauge.cli.score import score_command
from stepgauge.cli.scorers import scorers_command
from stepgauge.cli.serve import serve_command
from stepgauge.cli.verify import verify_command

INTERRUPTED = 130  # what typer exits with on ctrl-c

app = typer.Typer(
    name="stepgauge",
    help="Score every step of a reasoning trace, rerank best-of-n candidates, check answers, filter datasets.\n\n"
    "Exit codes: 0 done (skipped rows are reported on stderr), 1 no row could be read or scored, 2 wrong usage or "
    "input.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("score")(score_command)
app.command("rerank")(rerank_command)
app.command("verify")(verify_command)
app.command("equiv")(equiv_command)
app.command("dag")(dag_command)
evaluate = typer.Typer(
    help="Measure a scorer on human-labelled data, from a scorer or from saved scores.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
evaluate.command("processbench")(processbench_command)
evaluate.command("prmbench")(prmbench_command)
evaluate.command("best-of-n")(best_of_n_command)
app.add_typer(evaluate, name="evaluate")
app.command("filter")(filter_command)
app.command("label")(label_command)
app.command("report")(report_command)
app.command("robustness")(robustness_command)
app.command("serve")(serve_command)
app.command("scorers")(scorers_command)


def main() -> None:
    """Run the command line; expected failures become one line on stderr and exit code 2."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that temporary files are removed
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            typer.echo("interrupted; nothing half-written was left", err=True)
        raise
