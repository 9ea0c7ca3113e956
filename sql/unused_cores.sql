-- Question: which steps reserve the most cores that they do not use?
-- Columns:
--   step_name            name of the step
--   tasks                finished tasks that requested cores
--   requested_core_hours requested cores, times hours
--   used_core_hours      CPU time in hours
--   unused_core_hours    requested minus used
--   used_share           used, divided by requested
SELECT
  step_name,
  COUNT(*) AS tasks,
  SUM(requested_core_hours) AS requested_core_hours,
  SUM(used_core_hours) AS used_core_hours,
  SUM(requested_core_hours - used_core_hours) AS unused_core_hours,
  SUM(used_core_hours) / SUM(requested_core_hours) AS used_share
FROM (
  SELECT
    step_name,
    requested_millicores / 1e3 * (observed_boot_ns - started_boot_ns) / 3.6e12 AS requested_core_hours,
    cpu_ns / 3.6e12 AS used_core_hours
  FROM steps
  WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
    AND requested_millicores > 0
    AND observed_boot_ns > started_boot_ns
) AS tasks
GROUP BY step_name
ORDER BY unused_core_hours DESC, step_name
LIMIT 20
