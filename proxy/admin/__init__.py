"""Where operators look in: probes and metrics for all, the dashboard and control for whoever may."""
