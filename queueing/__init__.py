"""The job queue of Usher: accepts jobs durably, decides what runs where, and runs it.

Knows no chat and no HTTP; the packages above it import it, never the other way round.
"""
