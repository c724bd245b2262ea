"""The metrics, for Prometheus and for OTLP collectors."""
