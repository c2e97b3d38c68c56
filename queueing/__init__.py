"""The job queue of Usher: accepts jobs durably, decides what runs where, and runs it.

Knows no chat and no HTTP; the packages above it import it, never the other way round. Where to
look, in reading order:

- what there is: `requests`, `jobs`, `catalog`, `errors`; `ports`, which it needs from others, and
  `events`, which it tells whoever listens
- deciding, pure: a `world` goes into `planning` and a plan comes out; `forecast` runs the planner
  forward (`future`, `future_line`) and goes on behind that (`forecast_tail`); `retry`, `estimates`,
  `pace`, `reasons`
- doing: `jobqueue` is the front door, `assembly` makes what stands behind it; `router` carries out
  plans with `loader` and `processor`, which uses `sending`, `watch` and `outcomes`; `recovery` takes
  up what an earlier run left; `preloads`, `control` (with the value `paused`) and `erasure` do what
  admins and owners wish
- knowing: `fleet` with `budget`, `vitals` and `setbacks` (memory, servers, failed loads), kept
  true by `health`; `times` and `outlook` (how long things take); `at_hand`; `snapshots` shows all
  of it to the planner, `reports` to people
- remembering: `store`, and `ledger`, which writes down what the fleet and the times know
"""
