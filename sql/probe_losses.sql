-- Question: what did the probes lose or not observe?
-- Columns:
--   node              node
--   probe_starts      starts of its probe
--   events_lost       events of the kernel that the probe lost
--   records_dropped   records that left the spool before they were sent
--   cpu_coverage      mean share of the time in which CPU use was observed; an unknown share counts as 0
--   unknown_hours     hours with unknown CPU use of the workload
--   probe_core_hours  CPU time of the probe in hours
-- The probe counts its losses since its start, so the largest count of each start is added.
SELECT
  node,
  COUNT(*) AS probe_starts,
  SUM(events_lost) AS events_lost,
  SUM(records_dropped) AS records_dropped,
  SUM(covered_hours) / SUM(hours) AS cpu_coverage,
  SUM(unknown_hours) AS unknown_hours,
  SUM(probe_core_hours) AS probe_core_hours
FROM (
  SELECT
    node,
    probe_start,
    MAX(probe_events_lost) AS events_lost,
    MAX(probe_records_dropped) AS records_dropped,
    SUM((end_boot_ns - start_boot_ns) / 3.6e12) AS hours,
    SUM(COALESCE(coverage_cpu_ppm, 0) / 1e6 * (end_boot_ns - start_boot_ns) / 3.6e12) AS covered_hours,
    SUM(CASE WHEN workload_cpu_ns IS NULL THEN (end_boot_ns - start_boot_ns) / 3.6e12 ELSE 0e0 END) AS unknown_hours,
    SUM(probe_cpu_ns / 3.6e12) AS probe_core_hours
  FROM heartbeats
  WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
  GROUP BY node, probe_start
) AS starts
GROUP BY node
ORDER BY events_lost DESC, records_dropped DESC, node
