"""TLS of both sides: contexts from files, handshakes, server names, and the transport for the event loop."""
