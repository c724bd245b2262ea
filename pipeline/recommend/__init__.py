"""Recommends quotas from recorded usage."""
