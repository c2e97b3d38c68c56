"""What exported workflows of others contain: links, prompts, numbers, files. Pure."""
