-- Question: which users used how much CPU time?
-- Columns:
--   user_id           id of the user of the processes; -1 where it is unknown
--   tasks             finished tasks
--   failed_tasks      those that ended with an error, a signal or a kill for lack of memory
--   core_hours        CPU time in hours
--   failed_core_hours CPU time in hours of the failed tasks
-- Uses the view task_details; see sql/views.
SELECT
  COALESCE(user_id, -1) AS user_id,
  COUNT(*) AS tasks,
  SUM(is_failed) AS failed_tasks,
  SUM(cpu_ns / 3.6e12) AS core_hours,
  SUM(is_failed * cpu_ns / 3.6e12) AS failed_core_hours
FROM task_details
WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
GROUP BY COALESCE(user_id, -1)
ORDER BY core_hours DESC, user_id
