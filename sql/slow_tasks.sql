-- Question: which task of each step was slowest, against the median of the step?
-- Columns:
--   step_name    name of the step; steps with fewer than five tasks are left out
--   node         node of the slowest task
--   step_key     identifier of the slowest task, such as its container
--   tasks        finished tasks of the step
--   hours        duration of the slowest task
--   median_hours median of the durations of the step (nearest rank)
--   times_median duration of the slowest task, divided by the median
SELECT
  slowest.step_name,
  slowest.node,
  slowest.step_key,
  usual.tasks,
  slowest.hours,
  usual.median_hours,
  slowest.hours / usual.median_hours AS times_median
FROM (
  SELECT
    step_name,
    node,
    step_key,
    (observed_boot_ns - started_boot_ns) / 3.6e12 AS hours,
    ROW_NUMBER() OVER (
      PARTITION BY step_name ORDER BY observed_boot_ns - started_boot_ns DESC, node, step_key
    ) AS place
  FROM steps
  WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
) AS slowest
JOIN (
  SELECT
    step_name,
    MAX(tasks) AS tasks,
    MIN(CASE WHEN place * 2 >= tasks THEN hours END) AS median_hours
  FROM (
    SELECT
      step_name,
      (observed_boot_ns - started_boot_ns) / 3.6e12 AS hours,
      ROW_NUMBER() OVER (PARTITION BY step_name ORDER BY observed_boot_ns - started_boot_ns) AS place,
      COUNT(*) OVER (PARTITION BY step_name) AS tasks
    FROM steps
    WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
  ) AS ranked
  GROUP BY step_name
) AS usual ON slowest.step_name = usual.step_name
WHERE slowest.place = 1 AND usual.tasks >= 5 AND usual.median_hours > 0
ORDER BY times_median DESC, slowest.step_name
