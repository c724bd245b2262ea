"""The decisions: what may pass, when, at what price. Internal: authors of policies import `sluice`."""
