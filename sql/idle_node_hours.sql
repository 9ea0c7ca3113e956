-- Question: how long was each node idle on each day?
-- Columns:
--   node            node
--   day             UTC date
--   observed_hours  hours that the probe observed
--   idle_hours      hours below every limit of [activity] in the policy
--   unknown_hours   hours below the limits that are known, while another value is unknown
--   idle_core_hours cores of the node, times idle hours
-- The limits are the defaults: 2 % of a core, 1 MB of disk and 60 kB of network a minute, 1 % of a GPU.
SELECT
  node,
  dt AS day,
  SUM(hours) AS observed_hours,
  SUM(CASE WHEN use_of_node = 'idle' THEN hours ELSE 0e0 END) AS idle_hours,
  SUM(CASE WHEN use_of_node = 'unknown' THEN hours ELSE 0e0 END) AS unknown_hours,
  SUM(CASE WHEN use_of_node = 'idle' THEN hours * millicores / 1e3 ELSE 0e0 END) AS idle_core_hours
FROM (
  SELECT
    node,
    dt,
    millicores,
    (end_boot_ns - start_boot_ns) / 3.6e12 AS hours,
    CASE
      WHEN workload_cpu_ns >= 2e-2 * (end_boot_ns - start_boot_ns)
        OR workload_disk_bytes >= 1e6 * (end_boot_ns - start_boot_ns) / 6e10
        OR workload_network_bytes >= 6e4 * (end_boot_ns - start_boot_ns) / 6e10
        OR workload_gpu_ppm >= 10000
        OR typed_ago_ns < end_boot_ns - start_boot_ns THEN 'busy'
      WHEN workload_cpu_ns IS NULL OR workload_disk_bytes IS NULL OR workload_network_bytes IS NULL
        OR (workload_gpu_ppm IS NULL AND COALESCE(gpus, 1) > 0) THEN 'unknown'
      ELSE 'idle'
    END AS use_of_node
  FROM heartbeats
  WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
) AS intervals
GROUP BY node, dt
ORDER BY node, dt
