"""Who may use Usher and what they may do: people, rights, limits, keys and links."""
