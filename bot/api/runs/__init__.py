"""Follows API calls from the request to the job, and from the job's end to the response."""
