"""From a person's wish to the plain values of a job."""
