"""Sluice's own check of clients' tokens (OAUTHBEARER): keys, signatures and claims. Imported where it is configured."""
