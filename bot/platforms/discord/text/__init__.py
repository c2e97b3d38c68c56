"""What Discord's formatted texts say, and how texts are formatted for it."""
