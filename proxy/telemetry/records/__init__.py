"""Usage records: who used what in which second, as JSON lines in files, and in a Kafka topic if wanted."""
