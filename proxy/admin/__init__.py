"""The admin server: probes and metrics without authentication; dashboard and control over a socket or with a token."""
