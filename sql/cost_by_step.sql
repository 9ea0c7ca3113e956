-- Question: what did each step cost, and how much did unused capacity cost?
-- Columns:
--   step_name   step; null: cost that belongs to no task, such as idle time
--   tasks_usd   cost of what tasks occupied
--   failed_usd  part of tasks_usd of tasks that failed
--   unused_usd  cost of what no task occupied while tasks of the step ran
--   other_usd   all other cost
--   open_days   days of which the bill was not complete
-- The table exists once a bill was read. The newest evaluation of a day replaces the earlier ones.
SELECT
  step AS step_name,
  SUM(CASE WHEN part IN ('task', 'failed_task') THEN cost_micro_usd ELSE 0 END) / 1e6 AS tasks_usd,
  SUM(CASE WHEN part = 'failed_task' THEN cost_micro_usd ELSE 0 END) / 1e6 AS failed_usd,
  SUM(CASE WHEN part = 'unused' THEN cost_micro_usd ELSE 0 END) / 1e6 AS unused_usd,
  SUM(CASE WHEN part IN ('task', 'failed_task', 'unused') THEN 0 ELSE cost_micro_usd END) / 1e6 AS other_usd,
  COUNT(DISTINCT CASE WHEN closed THEN NULL ELSE dt END) AS open_days
FROM costs
JOIN (SELECT dt AS day, MAX(evaluated_at) AS newest FROM costs GROUP BY dt) AS last
  ON dt = day AND evaluated_at = newest
WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
GROUP BY step
ORDER BY SUM(cost_micro_usd) DESC, step
