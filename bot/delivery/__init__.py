"""Keeps status messages true and delivers results, within what each chat takes."""
