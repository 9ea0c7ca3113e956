-- Question: how many hours was each node active on each day, and what did its idle hours cost?
-- Columns:
--   node             node
--   day              UTC date
--   observed_hours   hours that the probe observed
--   active_hours     active hours of these, as in the report
--   task_hours       hours in which a task ran
--   idle_usd         cost of the other observed hours, where the price was known
--   unpriced_hours   observed hours without a price
-- A day is in the table six hours after its end.
SELECT
  node,
  dt AS day,
  SUM(observed_ppm) / 1e6 AS observed_hours,
  SUM(observed_ppm / 1e6 * active_ppm) / 1e6 AS active_hours,
  SUM(with_tasks_ppm) / 1e6 AS task_hours,
  SUM(observed_ppm / 1e6 * (1000000 - active_ppm) / 1e6 * COALESCE(price_micro_usd_per_hour, 0)) / 1e6 AS idle_usd,
  SUM(CASE WHEN price_micro_usd_per_hour IS NULL THEN observed_ppm ELSE 0 END) / 1e6 AS unpriced_hours
FROM node_hours
WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
GROUP BY node, dt
ORDER BY node, dt
