"""No I/O here: bytes and time are arguments, and everything that is decided can be tested with integers."""
