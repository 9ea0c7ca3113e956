-- Question: which findings does the last sweep report, and to whom do they belong?
-- Columns:
--   owner                owner of the resource; '(none)' where no tag names one
--   kind                 kind of finding
--   findings             number of findings
--   priced_findings      those with a known price
--   wasted_usd_per_hour  waste of the priced findings in USD an hour
--   saving_usd_per_month saving of the priced findings in USD a month
SELECT
  COALESCE(owner, '(none)') AS owner,
  kind,
  COUNT(*) AS findings,
  COUNT(wasted_micro_usd_per_hour) AS priced_findings,
  SUM(COALESCE(wasted_micro_usd_per_hour, 0) / 1e6) AS wasted_usd_per_hour,
  SUM(COALESCE(saving_micro_usd_per_month, 0) / 1e6) AS saving_usd_per_month
FROM findings
WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
  AND judged_at = (
    SELECT MAX(judged_at) FROM findings WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
  )
GROUP BY COALESCE(owner, '(none)'), kind
ORDER BY saving_usd_per_month DESC, owner, kind
