"""The job queue of Usher: accepts jobs durably, decides what runs where, and runs it."""
