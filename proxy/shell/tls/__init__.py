"""TLS of both sides: handshakes, server names, and the transport for the event loop."""
