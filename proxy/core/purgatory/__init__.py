"""Delayed operations, found by key and completed by condition or deadline."""
