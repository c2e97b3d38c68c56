"""The loop, and what carries a plan out."""
