-- The views of the questions in Athena. Run each statement alone.
-- task_details: one row for each finished task, with its user and its run
-- task_states: one row for each state in which samples found a task
CREATE OR REPLACE VIEW task_details AS
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

CREATE OR REPLACE VIEW task_states AS
SELECT dt, step_name, state, samples, time_ns
FROM steps CROSS JOIN UNNEST(detail.states) AS states (state, samples, time_ns);
