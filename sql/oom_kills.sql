-- Question: which steps does the kernel kill because memory is exhausted, and what did they request?
-- Columns:
--   step_name              name of the step
--   tasks                  finished tasks
--   killed_tasks           those that ended with a kill for lack of memory
--   killed_core_hours      CPU time in hours that the killed tasks used
--   smallest_request_bytes the smallest request of a killed task; null without a request
--   largest_peak_bytes     the largest known peak of a killed task
--   largest_good_peak_bytes the largest known peak of the other tasks
SELECT
  step_name,
  COUNT(*) AS tasks,
  SUM(CASE WHEN end_state = 'out_of_memory' THEN 1 ELSE 0 END) AS killed_tasks,
  SUM(CASE WHEN end_state = 'out_of_memory' THEN cpu_ns / 3.6e12 ELSE 0e0 END) AS killed_core_hours,
  MIN(CASE WHEN end_state = 'out_of_memory' THEN requested_memory_bytes END) AS smallest_request_bytes,
  MAX(CASE WHEN end_state = 'out_of_memory' THEN peak_memory_bytes END) AS largest_peak_bytes,
  MAX(CASE WHEN end_state <> 'out_of_memory' THEN peak_memory_bytes END) AS largest_good_peak_bytes
FROM steps
WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
GROUP BY step_name
HAVING SUM(CASE WHEN end_state = 'out_of_memory' THEN 1 ELSE 0 END) > 0
ORDER BY killed_tasks DESC, step_name
