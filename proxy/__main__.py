"""The command `sluice`, and `python -m sluice`, which is the same.

A SIGHUP that comes early is noted first, before anything that takes time to import: `sluice run` obeys it later, and
every other command ends by it as soon as it is known which command this is.
"""

from __future__ import annotations

from proxy.cli import builds
from proxy.shell import hangup


def main() -> None:
    """Run the command that the arguments name."""
    builds.choose()
    hangup.note()
    from proxy.cli.main import main as command  # noqa: PLC0415 - see the module

    command(prog_name="sluice")


if __name__ == "__main__":
    main()
