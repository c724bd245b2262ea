"""Traces: OpenTelemetry spans of a request, made after it has ended."""
