"""Who asks and what they may: people, rights, invites and the audit log."""
