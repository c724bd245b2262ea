"""The checks before a start: of this machine's files and variables, and of what answers at the brokers' addresses."""
