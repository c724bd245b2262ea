"""Statistics of requests: latency, usage, topics, traces and captures."""
