"""What may be held in memory, and by which connection."""
