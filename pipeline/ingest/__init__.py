"""Turns the usage log into tables: checked, without duplicates, by day and hour."""
