"""What each change of a job means, in SQL for both engines."""
