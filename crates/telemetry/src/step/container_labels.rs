//! Keys of the labels that the probe sends about a container.

/// The name of the container. This key is an attribute of OpenTelemetry.
pub const CONTAINER_NAME: &str = "container.name";

/// The image, as the container was started with it.
pub const CONTAINER_IMAGE: &str = "container.image";

/// The program that named the container: `docker`, `podman` or `ecs`.
pub const CONTAINER_SOURCE: &str = "container.source";

/// The family of a task of Amazon ECS, which is the name of its definition. This key is an
/// attribute of OpenTelemetry.
pub const ECS_FAMILY: &str = "aws.ecs.task.family";

/// The hash of the Nextflow task that the container runs, such as `ab/cdef…`.
pub const NEXTFLOW_HASH: &str = "nextflow.hash";

/// The service of Docker Compose, which is the name that a person wrote.
pub const COMPOSE_SERVICE: &str = "com.docker.compose.service";

/// The keys that the probe sends for each container. No scheduler sent them.
pub const FROM_PROBE: [&str; 5] = [
    CONTAINER_NAME,
    CONTAINER_IMAGE,
    CONTAINER_SOURCE,
    ECS_FAMILY,
    NEXTFLOW_HASH,
];
