"""`python -m proxy` is the command `sluice`."""

from proxy.cli import main

if __name__ == "__main__":
    main(prog_name="sluice")
