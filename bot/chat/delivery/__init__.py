"""Keeps messages true and delivers results, within what each chat accepts."""
