"""Traces: what a request did, as OpenTelemetry spans, made when it has ended. `choice` says whether and where to."""
