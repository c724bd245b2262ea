"""Traces: where notable requests spent their time, from the spans that Sluice writes."""
