"""The acting side: runs, loads and watches, carrying out what `planning` decides."""
