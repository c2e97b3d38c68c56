"""Speech: reads texts aloud and transcribes recordings."""
