"""One call: who makes it, what it brings, which error it gets."""
