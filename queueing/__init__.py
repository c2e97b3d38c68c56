"""The job queue of Usher: accepts jobs durably, decides what runs where, and runs it.

It knows no chat and no HTTP; the packages above import it, never the other way round. In reading
order:

- `core`: the values (jobs, requests, catalog, events, errors, reasons) and the ports others implement
- `planning`, pure: a `World` goes in, a `Plan` comes out; `forecast` runs the planner forward
  (`simulation`) and continues beyond that (`extrapolation`); `retry`,
  `estimates` and `progress_eta`
- `engine`: `scheduler` carries out plans with `loader` and `job_runner`, which uses `attempts`,
  `attempt_timeouts` and `outcomes`. `fleet` knows memory, servers and failed loads, and
  `health_checker` keeps it true; `durations` learns how long things take; `snapshots` shows all of
  it to the planner; `checkpoint` stores what a restart has to know; `event_bus` carries what a part
  causes outside itself
- `service`: what callers may ask, a part each: `intake`, `models`, `status` (with `eta`), `admin`
  and `erasure`; `jobqueue` is the record of them. `assembly` builds the queue, and
  `recovery` resumes what an earlier run left
- `store`: jobs in SQLite
"""
