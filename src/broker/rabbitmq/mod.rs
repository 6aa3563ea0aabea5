//! RabbitMQ over AMQP 0-9-1 and its management API.
