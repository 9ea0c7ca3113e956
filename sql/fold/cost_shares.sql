-- Question: which part of each machine belongs to the tasks of each step on each day? In the dialect of Spark.
-- Columns:
--   day               UTC date
--   node              node
--   step_name         name of the step
--   used_node_hours   hours of the whole machine that the tasks occupied
--   unused_node_hours their part of what no task occupied in the hours in which they ran
-- Both, times the price of the machine in an hour, are the used and the unused cost of docs/src/costs.md, with the
-- default method of the policy. The size of a machine is what its probe reported last.
-- The parameters first and last are dates. Tasks that end later than `last` are read too.
WITH machines AS (
  SELECT
    node,
    max_by(millicores, ended_at) AS millicores,
    max_by(memory_bytes, ended_at) AS memory_bytes,
    COALESCE(max_by(gpus, ended_at), 0) AS gpus,
    max_by(coverage_gpu_ppm IS NULL, ended_at) AS is_gpu_unknown
  FROM heartbeats
  WHERE dt BETWEEN :first AND :last
  GROUP BY node
), tasks AS (
  -- greatest skips null, so that a known request or use counts alone.
  SELECT
    node,
    step_name,
    unix_micros(started_at) * 1000 + started_at_submicro_ns AS start_ns,
    unix_micros(observed_at) * 1000 + observed_at_submicro_ns AS end_ns,
    greatest(requested_millicores, CAST(cpu_ns * 1e3 / (observed_boot_ns - started_boot_ns) AS BIGINT)) AS millicores,
    greatest(
      requested_memory_bytes,
      CASE WHEN peak_memory_source NOT IN ('cgroup_peak', 'max_rss_upper_bound') THEN peak_memory_bytes END
    ) AS memory_bytes,
    detail.gpu.devices AS gpus
  FROM steps
  WHERE dt >= :first AND to_date(started_at) <= :last AND observed_boot_ns > started_boot_ns
), claims AS (
  -- If only one of cores and memory is known, the task occupies as much of the other.
  SELECT
    tasks.node,
    tasks.step_name,
    tasks.start_ns,
    tasks.end_ns,
    machines.millicores AS machine_millicores,
    machines.memory_bytes AS machine_memory_bytes,
    machines.gpus AS machine_gpus,
    least(machines.millicores, tasks.millicores) AS millicores,
    least(
      machines.memory_bytes,
      COALESCE(
        tasks.memory_bytes,
        CAST(1e0 * least(tasks.millicores, machines.millicores) * machines.memory_bytes / machines.millicores AS BIGINT)
      )
    ) AS memory_bytes,
    least(
      machines.gpus,
      COALESCE(tasks.gpus, CASE WHEN machines.is_gpu_unknown THEN machines.gpus ELSE 0 END)
    ) AS gpus
  FROM tasks JOIN machines ON tasks.node = machines.node
), hours AS (
  SELECT
    *,
    (least(end_ns, (hour + 1) * 3600000000000) - greatest(start_ns, hour * 3600000000000)) DIV 1000000 / 3.6e6 AS part
  FROM claims
  LATERAL VIEW explode(sequence(start_ns DIV 3600000000000, (end_ns - 1) DIV 3600000000000)) AS hour
), weights AS (
  -- A core weighs as much as 9 GiB, and a GPU as much as 10 cores.
  SELECT
    node,
    step_name,
    hour,
    resource.available,
    resource.amount,
    SUM(resource.amount) OVER (PARTITION BY node, hour, resource.name) AS all_amounts,
    9e0 * machine_millicores / 1e3 + machine_memory_bytes / 1073741824e0 + 90e0 * machine_gpus AS machine
  FROM hours
  LATERAL VIEW explode(array(
    struct('cores' AS name, 9e0 * machine_millicores / 1e3 AS available, 9e0 * millicores / 1e3 * part AS amount),
    struct(
      'memory' AS name, machine_memory_bytes / 1073741824e0 AS available, memory_bytes / 1073741824e0 * part AS amount
    ),
    struct('gpus' AS name, 90e0 * machine_gpus AS available, 90e0 * gpus * part AS amount)
  )) AS resource
  WHERE part > 0
)
SELECT
  to_date(timestamp_seconds(hour * 3600)) AS day,
  node,
  step_name,
  SUM(CASE WHEN all_amounts > available THEN amount * available / all_amounts ELSE amount END / machine)
    AS used_node_hours,
  SUM(CASE WHEN amount > 0 THEN greatest(available - all_amounts, 0e0) * amount / all_amounts ELSE 0e0 END / machine)
    AS unused_node_hours
FROM weights
WHERE to_date(timestamp_seconds(hour * 3600)) BETWEEN :first AND :last
GROUP BY to_date(timestamp_seconds(hour * 3600)), node, step_name
ORDER BY day, node, step_name
