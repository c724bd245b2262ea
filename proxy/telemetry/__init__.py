"""What people and machines see of the proxy. Off the request path."""
