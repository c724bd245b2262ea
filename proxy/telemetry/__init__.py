"""Log, metrics, traces, usage log and audit log, off the request path."""
