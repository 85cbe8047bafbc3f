"""Live messages from brokers: Kafka, MQTT, Redis streams, NATS JetStream and HTTP."""
