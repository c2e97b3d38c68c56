"""From a call to its job, and from the job's end to the response."""
