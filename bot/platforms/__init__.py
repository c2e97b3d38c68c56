"""Chat platforms, one folder each; none knows another, a command or delivery."""
