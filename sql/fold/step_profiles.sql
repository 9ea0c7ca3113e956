-- Question: what did the tasks of each step use, as the advice about requests counts it?
-- Columns:
--   step_name       name of the step
--   tasks           finished tasks
--   failed_tasks    those that ended with an error, a signal or a kill for lack of memory
--   killed_tasks    those that the kernel killed because memory was exhausted
--   sampled_tasks   those that ended with status 0; the columns below are about them, except the last two
--   mean_seconds    mean duration
--   mean_cores      CPU time divided by duration, over all these tasks
--   core_hours      CPU time in hours
--   peak_p50_bytes  median of the known peaks of memory (nearest rank)
--   peak_p95_bytes  95th percentile of the known peaks of memory (nearest rank)
--   peak_max_bytes  largest known peak of memory, also of a failed task
--   last_end        last end of a task, UTC, also of a failed one
SELECT
  all_tasks.step_name,
  all_tasks.tasks,
  all_tasks.failed_tasks,
  all_tasks.killed_tasks,
  COALESCE(samples.sampled_tasks, 0) AS sampled_tasks,
  samples.mean_seconds,
  samples.mean_cores,
  COALESCE(samples.core_hours, 0e0) AS core_hours,
  samples.peak_p50_bytes,
  samples.peak_p95_bytes,
  all_tasks.peak_max_bytes,
  all_tasks.last_end
FROM (
  SELECT
    step_name,
    COUNT(*) AS tasks,
    SUM(CASE WHEN end_state IN ('signalled', 'out_of_memory') OR exit_status <> 0 THEN 1 ELSE 0 END) AS failed_tasks,
    SUM(CASE WHEN end_state = 'out_of_memory' THEN 1 ELSE 0 END) AS killed_tasks,
    MAX(CASE WHEN end_state IN ('exited', 'signalled', 'out_of_memory') THEN peak_memory_bytes END) AS peak_max_bytes,
    MAX(observed_at) AS last_end
  FROM steps
  WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
  GROUP BY step_name
) AS all_tasks
LEFT JOIN (
  SELECT
    step_name,
    COUNT(*) AS sampled_tasks,
    SUM(seconds) / COUNT(*) AS mean_seconds,
    SUM(cpu_seconds) / SUM(seconds) AS mean_cores,
    SUM(cpu_seconds) / 3.6e3 AS core_hours,
    MIN(CASE WHEN place * 100 >= peaks * 50 THEN peak_memory_bytes END) AS peak_p50_bytes,
    MIN(CASE WHEN place * 100 >= peaks * 95 THEN peak_memory_bytes END) AS peak_p95_bytes
  FROM (
    SELECT
      step_name,
      peak_memory_bytes,
      (observed_boot_ns - started_boot_ns) / 1e9 AS seconds,
      cpu_ns / 1e9 AS cpu_seconds,
      COUNT(peak_memory_bytes) OVER (PARTITION BY step_name) AS peaks,
      ROW_NUMBER() OVER (
        PARTITION BY step_name
        ORDER BY CASE WHEN peak_memory_bytes IS NULL THEN 1 ELSE 0 END, peak_memory_bytes
      ) AS place
    FROM steps
    WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
      AND end_state = 'exited' AND exit_status = 0
      AND observed_boot_ns > started_boot_ns
  ) AS ranked
  GROUP BY step_name
) AS samples ON all_tasks.step_name = samples.step_name
ORDER BY all_tasks.step_name
