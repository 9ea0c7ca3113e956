-- Question: what did each run of a pipeline use?
-- Columns:
--   pipeline     name of the pipeline; '(none)' where the launcher does not name it
--   run_key      identifier of the run
--   tasks        finished tasks
--   failed_tasks those that ended with an error, a signal or a kill for lack of memory
--   first_start  start of its first task, UTC
--   last_end     end of its last task, UTC
--   core_hours   CPU time in hours
--   task_hours   durations of its tasks in hours
-- Uses the view task_details; see sql/views.
SELECT
  COALESCE(pipeline, '(none)') AS pipeline,
  run_key,
  COUNT(*) AS tasks,
  SUM(is_failed) AS failed_tasks,
  MIN(started_at) AS first_start,
  MAX(observed_at) AS last_end,
  SUM(cpu_ns / 3.6e12) AS core_hours,
  SUM((observed_boot_ns - started_boot_ns) / 3.6e12) AS task_hours
FROM task_details
WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
  AND run_key IS NOT NULL
GROUP BY COALESCE(pipeline, '(none)'), run_key
ORDER BY core_hours DESC, run_key
