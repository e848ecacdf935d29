"""The command ``cmtrf``: its verbs, and what becomes of errors and interrupts."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cmtrf.cli.console import Debug, plain_warnings, report, say
from cmtrf.cli.demo import demo
from cmtrf.cli.evaluate import evaluate
from cmtrf.cli.fit import fit
from cmtrf.cli.predict import predict
from cmtrf.cli.recommend import recommend

INTERRUPTED = 130  # as shells count it: 128 and the number of the signal


class Verbs(TyperGroup):
    """A group of commands that reports errors in one sentence."""

    def main(
        self,
        args: Any = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command; exit status 0 done, 1 failed, 2 wrong call, 130 interrupted."""
        words = sys.argv[1:] if args is None else list(args)
        try:
            status = super().main(words, prog_name or "cmtrf", complete_var, standalone_mode=False, **extra)
        except Exception as error:
            status = report(error, debug="--debug" in words)
        if standalone_mode:
            sys.exit(status or 0)
        return status

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; what it printed has arrived before it counts as done."""
        try:
            with plain_warnings():
                answer = super().invoke(ctx)
                sys.stdout.flush()
        except KeyboardInterrupt as interrupt:
            say(f"interrupted; {getattr(interrupt, 'kept', 'no file was written')}")
            raise typer.Exit(INTERRUPTED) from None
        return answer


app = typer.Typer(
    cls=Verbs,
    name="cmtrf",
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        from cmtrf import __version__

        print(f"cmtrf {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: cmtrf fit ratings.csv -o model.cmtrf && cmtrf recommend model.cmtrf --user 17")
def start(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Ratings in, predictions and each rater's own scale out."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
        raise typer.Exit(2)


app.command(epilog="Example: cmtrf demo")(demo)
app.command(epilog="Example: cmtrf fit ratings.csv -o model.cmtrf --scales 4 --rank 20")(fit)
app.command(epilog="Example: cmtrf predict model.cmtrf pairs.csv -o predictions.csv")(predict)
app.command(epilog="Example: cmtrf recommend model.cmtrf --user 17 --user 42 -n 5")(recommend)
app.command(epilog="Example: cmtrf evaluate ratings.csv --models point,bias --seeds 5 -o results.json")(evaluate)


def main() -> None:
    """Entry point of the command ``cmtrf``."""
    app()
