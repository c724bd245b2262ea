"""Sluice's own plug-ins that get tokens, registered in `sluice.tokens` as a stranger's would be."""
