"""Authentication: the names and the proofs of clients and of Sluice itself, without I/O."""
