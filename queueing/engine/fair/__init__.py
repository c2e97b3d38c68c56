"""The order of queues by what people used lately."""
