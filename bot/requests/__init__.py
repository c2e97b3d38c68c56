"""From a person's request to an accepted job or a refusal; knows no platform and no HTTP."""
