"""Jobs and everything that belongs to them: what each change means, in SQL for every engine."""
