"""The components of Discord's messages: buttons, galleries and forms, sent and received."""
