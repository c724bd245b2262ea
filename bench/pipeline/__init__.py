"""The jobs of the pipeline: time, memory and rows per second, on made-up tables."""
