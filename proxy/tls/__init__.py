"""Everything of TLS: contexts and certificates, names of peers, handshakes, and the transport for the event loop."""
