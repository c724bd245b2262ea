"""Predicts what other quotas would have done to recorded traffic."""
