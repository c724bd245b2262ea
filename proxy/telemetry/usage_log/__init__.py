"""The usage log: who used what in each second, as JSON lines in files and, optionally, in a Kafka topic."""
