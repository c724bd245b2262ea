"""`sluice`, and `python -m proxy`, which is the same command.

A proxy is protected first, before anything that takes time to import: from a SIGHUP that comes early, and from a
standard error that blocks, is closed, or refuses what is written.
"""

from __future__ import annotations

import sys

from proxy import hangup


def main() -> None:
    """Run the command that the arguments name."""
    if "run" in sys.argv[1:]:
        hangup.note()
        from proxy.telemetry import stderr  # noqa: PLC0415 - see the module

        stderr.install()
    from proxy.cli.main import main as command  # noqa: PLC0415 - see the module

    command(prog_name="sluice")


if __name__ == "__main__":
    main()
