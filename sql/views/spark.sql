-- The views of the questions in Spark.
-- task_details: one row for each finished task, with its user and its run
-- task_states: one row for each state in which samples found a task
CREATE OR REPLACE TEMPORARY VIEW task_details AS
SELECT
  dt,
  node,
  step_kind,
  step_key,
  step_name,
  started_at,
  observed_at,
  started_boot_ns,
  observed_boot_ns,
  cpu_ns,
  CASE WHEN end_state IN ('signalled', 'out_of_memory') OR exit_status <> 0 THEN 1 ELSE 0 END AS is_failed,
  detail.user_id AS user_id,
  detail.run.launcher AS launcher,
  detail.run.key AS run_key,
  detail.run.pipeline AS pipeline
FROM steps;

CREATE OR REPLACE TEMPORARY VIEW task_states AS
SELECT dt, step_name, one.state AS state, one.samples AS samples, one.time_ns AS time_ns
FROM steps LATERAL VIEW EXPLODE(detail.states) states AS one;
