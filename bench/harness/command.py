"""The command line that all benchmarks share: options, and errors as an exit code."""

import argparse
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final

from bench.harness import FOLDER, BenchError

PEER_FORM: Final = "NAME[@VERSION]=COMMAND"


def options(module: str, doc: str | None, **numbers: float) -> argparse.ArgumentParser:
    """Return a parser with `--out` and an option for each number, which is its default and has its type."""
    about = (doc or "").split("\n", 1)[0]
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    for name, default in numbers.items():
        made.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    made.add_argument("--out", type=Path, default=FOLDER, help="folder of RESULTS.md")
    return made


def peer_options(parser: argparse.ArgumentParser) -> None:
    """Add `--peer`, which may be given more than once (`bench.variants.parse_peer` reads it), and `--first-warm`."""
    parser.add_argument("--peer", action="append", default=[], metavar=PEER_FORM)
    about = "seconds of load on each of these before the first round"
    parser.add_argument("--first-warm", type=float, metavar="SECONDS", help=about)


def first_warm_s(given: argparse.Namespace, with_peers_s: float) -> float:
    """Return the seconds of `--first-warm`, or its default: `with_peers_s` if there is a peer, else 0."""
    if given.first_warm is None:
        return with_peers_s if given.peer else 0.0
    return float(given.first_warm)


def prints_errors(main: Callable[..., int]) -> Callable[..., int]:
    """Make `main` print a BenchError or a ValueError to stderr and return 1."""

    @wraps(main)
    def wrapped(arguments: list[str] | None = None) -> int:
        try:
            return main(arguments)
        except (BenchError, ValueError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1

    return wrapped
