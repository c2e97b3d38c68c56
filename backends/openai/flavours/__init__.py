"""What distinguishes each of these servers."""
