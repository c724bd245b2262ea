"""What a running proxy does for its policies: services, slow work in threads, and their end after a reload."""
