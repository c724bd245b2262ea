"""Structured Streaming: rollups by the minute, and alerts for clients that are throttled most of the time."""
