"""Tests of `bot.gateway.fetching`."""
