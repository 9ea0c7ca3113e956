-- The views of the questions for `ebb lake query`, which runs SQLite and only reads: this text goes before a question.
-- task_details: one row for each finished task, with its user and its run
-- task_states: one row for each state in which samples found a task
WITH task_details AS (
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
  json_extract(detail, '$.user_id') AS user_id,
  json_extract(detail, '$.run.launcher') AS launcher,
  json_extract(detail, '$.run.key') AS run_key,
  json_extract(detail, '$.run.pipeline') AS pipeline
FROM steps
), task_states AS (
SELECT
  steps.dt AS dt,
  steps.step_name AS step_name,
  json_extract(one.value, '$.state') AS state,
  json_extract(one.value, '$.samples') AS samples,
  json_extract(one.value, '$.time_ns') AS time_ns
FROM steps, json_each(steps.detail, '$.states') AS one
)
