"""The native API: submit a job, watch it and fetch its result; list queues and machines."""
