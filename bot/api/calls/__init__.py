"""HTTP calls to the API: their caller, body, files and errors."""
