-- Question: what do the tasks of each step wait for?
-- Columns:
--   step_name name of the step
--   state     running, or what the task waits for, such as disk or network
--   tasks     finished tasks with a sample in this state
--   hours     hours in this state
--   share     hours in this state, divided by the hours of all states of the step
-- Uses the view task_states; see sql/views.
SELECT
  by_state.step_name,
  by_state.state,
  by_state.tasks,
  by_state.hours,
  by_state.hours / all_states.hours AS share
FROM (
  SELECT step_name, state, COUNT(*) AS tasks, SUM(time_ns / 3.6e12) AS hours
  FROM task_states
  WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
  GROUP BY step_name, state
) AS by_state
JOIN (
  SELECT step_name, SUM(time_ns / 3.6e12) AS hours
  FROM task_states
  WHERE dt BETWEEN date('2026-11-01') AND date('2026-11-30')
  GROUP BY step_name
) AS all_states ON by_state.step_name = all_states.step_name
WHERE all_states.hours > 0
ORDER BY by_state.step_name, by_state.hours DESC, by_state.state
