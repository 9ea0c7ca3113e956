-- Question: how much memory does each step request, and how much do its tasks use?
-- Columns:
--   step_name       name of the step
--   tasks           finished tasks
--   measured_tasks  those with a known peak of memory
--   requested_bytes the largest request; null without a request
--   peak_p50_bytes  median of the peaks (nearest rank)
--   peak_p95_bytes  95th percentile of the peaks (nearest rank)
--   peak_max_bytes  the largest peak
-- A percentile by nearest rank is the smallest peak that is not below that share of the measured tasks.
SELECT
  all_tasks.step_name,
  all_tasks.tasks,
  COALESCE(peaks.measured_tasks, 0) AS measured_tasks,
  all_tasks.requested_bytes,
  peaks.peak_p50_bytes,
  peaks.peak_p95_bytes,
  peaks.peak_max_bytes
FROM (
  SELECT step_name, COUNT(*) AS tasks, MAX(requested_memory_bytes) AS requested_bytes
  FROM steps
  WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
  GROUP BY step_name
) AS all_tasks
LEFT JOIN (
  SELECT
    step_name,
    MAX(measured_tasks) AS measured_tasks,
    MIN(CASE WHEN place * 100 >= measured_tasks * 50 THEN peak_memory_bytes END) AS peak_p50_bytes,
    MIN(CASE WHEN place * 100 >= measured_tasks * 95 THEN peak_memory_bytes END) AS peak_p95_bytes,
    MAX(peak_memory_bytes) AS peak_max_bytes
  FROM (
    SELECT
      step_name,
      peak_memory_bytes,
      ROW_NUMBER() OVER (PARTITION BY step_name ORDER BY peak_memory_bytes) AS place,
      COUNT(*) OVER (PARTITION BY step_name) AS measured_tasks
    FROM steps
    WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
      AND peak_memory_bytes IS NOT NULL
  ) AS ranked
  GROUP BY step_name
) AS peaks ON all_tasks.step_name = peaks.step_name
ORDER BY all_tasks.step_name
