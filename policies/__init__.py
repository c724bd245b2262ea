"""The decisions: what may pass, when, at what price. A policy author needs `policies.api` and `policies.testing`."""
