//! The web pages. A page is one handler that prepares text and one template that escapes it. All
//! state is in the address, so a link shows the same page to another reader. Nothing here decides
//! anything: decisions are made by the API, which the script of the pages calls.

pub(crate) mod answer;
pub(crate) mod assets;
mod cost_shares;
mod costs;
mod csv_table;
mod finding;
mod findings;
mod gantt;
mod live;
mod node;
mod nodes;
mod open;
mod overview;
mod pager;
mod probes;
pub(crate) mod routes;
mod run;
mod run_cost;
mod run_log;
mod runs;
mod search;
mod step;
mod steps;
mod tasks;
#[cfg(test)]
mod tests;
mod usage;
mod value_text;
mod view;
