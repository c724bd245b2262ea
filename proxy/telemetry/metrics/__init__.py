"""What Sluice counts, for Prometheus and for OTLP collectors."""
