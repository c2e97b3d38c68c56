"""The native API: submit a job, watch it, fetch what came of it; and where all lines stand."""
