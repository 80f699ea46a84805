"""`igfl`: one command with a verb for each thing there is to do."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import typer

from igfl import __version__
from igfl.cli import data, listing, split
from igfl.cli.bench import bench
from igfl.cli.compare import compare
from igfl.cli.report import report
from igfl.cli.reproduce import reproduce
from igfl.cli.run import resume, run as train
from igfl.cli.tune import tune

INTERRUPTED = 130  # what typer makes of Ctrl-C
app = typer.Typer(
    help="Federated learning for clients whose data differ.", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False,
)  # fmt: skip
app.command(name="run", epilog="Example: igfl run cifar-quick method=igfl/time train.lr=0.03 --tensorboard")(train)
app.command(epilog="Example: igfl resume runs/cifar-quick-001")(resume)
app.command(epilog="Example: igfl compare runs/cifar-quick-001 runs/cifar-quick-002")(compare)
app.command(name="list", epilog="Example: igfl list methods")(listing.show)
app.add_typer(listing.config_app, name="config")
app.add_typer(data.app, name="data")
app.add_typer(split.app, name="split")
app.command(epilog="Example: igfl bench B --method fedavg --method igfl/time")(bench)
app.command(epilog="Example: igfl tune cifar-quick --method fedavg --method igfl/time --over train.lr=0.01,0.03,0.1")(
    tune
)
app.command(epilog="Example: igfl report runs/cifar-quick-001 runs/cifar-quick-002 --out report.html")(report)
app.command(epilog="Example: igfl reproduce table2 figure2 --scale reduced --budget 4h")(reproduce)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; 0 done, 1 failed, 2 bad input, which is told in one line."""
    try:
        code = int(app(arguments, prog_name="igfl", standalone_mode=False) or 0)
        return _refuse("stopped", code=1) if code == INTERRUPTED else code
    except (typer.Abort, KeyboardInterrupt):
        return _refuse("stopped", code=1)
    except ValueError as error:
        return _refuse(str(error))
    except RuntimeError as error:  # a run that failed; where it was somebody's model or method, with the place
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        return _refuse(str(error), code=1)
    except ImportError as error:  # of an extra, which says how to get it
        return _refuse(str(error), code=1)
    except OSError as error:
        return _refuse(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), code=1)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own, which it takes now from click, now from itself
            message: str = error.format_message()
            return _refuse(message) if message else 2  # none: it has shown the help
        raise


def _refuse(message: str, code: int = 2) -> int:
    print("igfl: " + " ".join(message.split()), file=sys.stderr)
    return code


def main() -> None:
    """The entry point."""
    sys.exit(run())
