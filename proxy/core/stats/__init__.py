"""What is counted of requests: latency, usage, topics, traces."""
