"""The doing: what runs, loads and watches, and carries out what `planning` decides."""
