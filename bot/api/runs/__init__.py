"""From a call to its job and the job's outcome."""
