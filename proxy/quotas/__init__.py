"""`sluice quotas`: list, set, remove and watch the quotas of a running Sluice, over the Kafka protocol."""
