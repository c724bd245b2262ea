"""The command `sluice-pipeline`."""
