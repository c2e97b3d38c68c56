"""The scheduling loop and the parts that carry out its plans."""
