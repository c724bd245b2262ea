"""TLS as OpenSSL has it: contexts, certificates, and its errors in words. Every room may use it."""
