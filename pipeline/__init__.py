"""The data pipeline on PySpark: what clients used, which quotas they need, and what other quotas would have done."""
