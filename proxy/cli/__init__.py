"""The command line: `sluice` and its commands, one module each."""
