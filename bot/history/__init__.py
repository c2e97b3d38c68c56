"""What an operator is shown of the bot: how it is now, how it has been, and by whom it was used.

The records are plain values with one form as JSON, the same for the page and for `usher top`.
"""
