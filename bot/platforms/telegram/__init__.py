"""The Telegram platform."""
