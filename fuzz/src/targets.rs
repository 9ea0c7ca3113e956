//! The targets, by who writes the bytes.

pub(crate) mod api;
pub(crate) mod files;
pub(crate) mod node;
pub(crate) mod objects;
pub(crate) mod wire;

use crate::Target;

pub(crate) const ALL: &[Target] = &[
    // Data from nodes.
    Target {
        name: "heartbeat_message",
        run: wire::heartbeat_message,
        seeds: wire::messages,
    },
    Target {
        name: "heartbeat_fields",
        run: wire::heartbeat_fields,
        seeds: wire::message_fields,
    },
    Target {
        name: "steps_object",
        run: wire::steps_object,
        seeds: wire::objects,
    },
    Target {
        name: "steps_fields",
        run: wire::steps_fields,
        seeds: wire::object_fields,
    },
    Target {
        name: "object_key",
        run: wire::object_key,
        seeds: wire::keys,
    },
    Target {
        name: "heartbeat_story",
        run: wire::heartbeat_story,
        seeds: wire::stories,
    },
    // Data from other writers of the bucket or folder.
    Target {
        name: "state",
        run: objects::state,
        seeds: objects::states,
    },
    Target {
        name: "hours",
        run: objects::hours,
        seeds: objects::all_hours,
    },
    Target {
        name: "finding_memory",
        run: objects::finding_memory,
        seeds: objects::finding_memories,
    },
    Target {
        name: "metered_answers",
        run: objects::metered_answers,
        seeds: objects::all_metered_answers,
    },
    Target {
        name: "decisions",
        run: objects::decisions,
        seeds: objects::all_decisions,
    },
    Target {
        name: "task_names",
        run: objects::task_names,
        seeds: objects::all_task_names,
    },
    Target {
        name: "run_document",
        run: api::run_document,
        seeds: api::run_documents,
    },
    Target {
        name: "prices",
        run: objects::prices,
        seeds: objects::all_prices,
    },
    Target {
        name: "report",
        run: objects::report,
        seeds: objects::reports,
    },
    Target {
        name: "lake_log",
        run: objects::lake_log,
        seeds: objects::lake_logs,
    },
    // Data from users.
    Target {
        name: "policy",
        run: files::policy,
        seeds: files::policies,
    },
    Target {
        name: "metrics_csv",
        run: files::metrics_csv,
        seeds: files::metrics,
    },
    Target {
        name: "billing_export",
        run: files::billing_export,
        seeds: files::bills,
    },
    Target {
        name: "cost_export",
        run: files::cost_export,
        seeds: files::cost_exports,
    },
    Target {
        name: "workflow_records",
        run: files::workflow_records,
        seeds: files::records,
    },
    Target {
        name: "snakefile",
        run: files::snakefile,
        seeds: files::snakefiles,
    },
    // Data from local users and from the disk of a node.
    Target {
        name: "label_request",
        run: node::label_request,
        seeds: node::labels,
    },
    Target {
        name: "snakemake_arguments",
        run: node::snakemake_arguments,
        seeds: node::arguments,
    },
    Target {
        name: "container_names",
        run: node::container_names,
        seeds: node::container_answers,
    },
    Target {
        name: "spool_record",
        run: node::spool_record,
        seeds: node::records,
    },
    Target {
        name: "probe_rules",
        run: node::probe_rules,
        seeds: node::rules,
    },
    Target {
        name: "probe_configuration",
        run: node::probe_configuration,
        seeds: node::configurations,
    },
    // Data from readers of the API.
    Target {
        name: "api_event",
        run: api::event,
        seeds: api::events,
    },
    Target {
        name: "api_request",
        run: api::request,
        seeds: api::requests,
    },
];
