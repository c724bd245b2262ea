"""Limits on the memory that connections use."""
