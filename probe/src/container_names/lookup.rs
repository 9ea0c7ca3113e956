//! Asks the programs that run containers, and reads the files of Podman.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ebb_telemetry::step::StepKind;
use rustix::fs::OFlags;

use super::http::{Address, LocalProgram};
use super::{ContainerDescription, UnnamedContainer, docker, ecs, podman};
use crate::kernel_file;
use crate::node;
use crate::proc_stat::ProcessStat;

/// The port of the agent of Amazon ECS.
///
/// Source: `AgentIntrospectionPort` in `ecs-agent/introspection` of amazon-ecs-agent.
const ECS_AGENT_PORT: u16 = 51_678;

/// The storage of Podman of the user root. The storage of other users is in their home, which the
/// unit of systemd hides.
const PODMAN_STORAGE: &str = "/var/lib/containers/storage";

/// Maximum bytes of a list in the storage; a container takes about 500.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// All sources of names of containers.
#[derive(Debug)]
pub struct ContainerLookup {
    docker: Option<LocalProgram>,
    ecs_agent: LocalProgram,
    podman_storage: PathBuf,
}

impl ContainerLookup {
    /// Docker is asked only if the configuration contains its socket.
    pub fn new(docker_socket: Option<&Path>) -> Self {
        let docker = docker_socket
            .map(|socket| LocalProgram::new("docker", Address::Unix(socket.to_owned())));
        Self {
            docker,
            ecs_agent: LocalProgram::new("ecs-agent", Address::Loopback(ECS_AGENT_PORT)),
            podman_storage: PODMAN_STORAGE.into(),
        }
    }

    /// Descriptions by the key of the task.
    pub fn find(&mut self, unnamed: &[UnnamedContainer]) -> HashMap<String, ContainerDescription> {
        let of_kind = |kind: StepKind| unnamed.iter().filter(move |one| one.id.kind == kind);
        let is_of_podman = |one: &&UnnamedContainer| one.cgroup.contains("libpod-");
        let mut found = HashMap::new();
        if of_kind(StepKind::EcsTask).next().is_some() {
            found.extend(ask(
                &mut self.ecs_agent,
                ecs::REQUEST.to_owned(),
                ecs::parse,
            ));
        }
        if unnamed.iter().any(|one| is_of_podman(&one)) {
            let of_podman = of_kind(StepKind::Container).filter(is_of_podman);
            let monitored = of_podman.filter_map(|one| {
                let name = monitored_name(one)?;
                let runtime = ContainerDescription::reported_by(super::Runtime::Podman);
                let description = ContainerDescription {
                    name: Some(name),
                    ..runtime
                };
                Some((one.id.key.clone(), description))
            });
            merge(&mut found, monitored);
            let mut all = stored(&self.podman_storage);
            let new = of_kind(StepKind::Container);
            let new = new.filter_map(|one| all.remove_entry(&one.id.key));
            merge(&mut found, new);
        }
        if let Some(program) = &mut self.docker {
            let others = of_kind(StepKind::Container).filter(|one| !is_of_podman(one));
            let ids = others.map(|one| one.id.key.as_str());
            if let Some(request) = docker::request(ids) {
                merge(&mut found, ask(program, request, docker::parse));
            }
        }
        let hashes = of_kind(StepKind::Container).filter_map(|one| {
            let description = ContainerDescription {
                nextflow_hash: Some(nextflow_hash(one)?),
                ..ContainerDescription::default()
            };
            Some((one.id.key.clone(), description))
        });
        merge(&mut found, hashes);
        found
    }
}

type Descriptions = HashMap<String, ContainerDescription>;

fn merge(found: &mut Descriptions, more: impl IntoIterator<Item = (String, ContainerDescription)>) {
    for (key, description) in more {
        let before = found.remove(&key).unwrap_or_default();
        found.insert(key, before.or(description));
    }
}

fn ask(
    program: &mut LocalProgram,
    request: String,
    parse: fn(&[u8]) -> Result<Descriptions, serde_json::Error>,
) -> Descriptions {
    let Some(response) = program.get(request) else {
        return HashMap::new();
    };
    parse(&response).unwrap_or_else(|error| {
        program.failed(&error);
        HashMap::new()
    })
}

/// The name of a container of Podman from the arguments of the parent of its first process. Only
/// the real parent is used, so no other process can name the container.
fn monitored_name(container: &UnnamedContainer) -> Option<String> {
    let proc = Path::new("/proc");
    let stat = |pid: u32| {
        let text = kernel_file::read(proc.join(pid.to_string()).join("stat")).ok()?;
        ProcessStat::parse(&text)
    };
    container.processes.iter().find_map(|process| {
        let parent = stat(process.pid)?.parent;
        if stat(parent)?.comm != podman::MONITOR {
            return None;
        }
        let mut arguments = Vec::new();
        let file = File::open(proc.join(parent.to_string()).join("cmdline")).ok()?;
        file.take(16 << 10).read_to_end(&mut arguments).ok()?;
        podman::name_in_monitor(&arguments, &container.id.key)
    })
}

/// The containers in the lists of a storage, one for each storage driver and one for `--rm`.
fn stored(storage: &Path) -> Descriptions {
    let mut all = HashMap::new();
    for driver in ["overlay", "vfs", "btrfs", "zfs"] {
        for list in ["containers.json", "volatile-containers.json"] {
            let path = storage.join(format!("{driver}-containers")).join(list);
            let parsed = read_list(&path).map(|file| podman::parse_storage(&file));
            if let Ok(Ok(containers)) = parsed {
                all.extend(containers);
            }
        }
    }
    all
}

/// A regular file of root or of the user of the probe.
fn read_list(path: &Path) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    let is_list = metadata.is_file() && metadata.uid() == 0 && metadata.len() <= MAX_LIST_BYTES;
    if !is_list {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_LIST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The hash of the Nextflow task that a container runs: Nextflow starts the container in the work
/// folder of the task.
///
/// Source: `DockerBuilder.build` of Nextflow (`-w "$NXF_TASK_WORKDIR"`), and
/// `FileHelper.getWorkFolder`, which creates names with 2 and 30 hexadecimal digits of a hash.
fn nextflow_hash(container: &UnnamedContainer) -> Option<String> {
    let mut processes = container.processes.iter();
    processes.find_map(|process| node::in_work_directory(*process, hash_in))
}

fn hash_in(folder: &Path) -> Option<String> {
    let leaf = folder.file_name()?.to_str()?;
    let group = folder.parent()?.file_name()?.to_str()?;
    let is_hex = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hex(group, 2) && is_hex(leaf, 30)).then(|| format!("{group}/{leaf}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_of_nextflow_has_a_hash() {
        let check = |folder: &str, expect: Option<&str>| {
            assert_eq!(hash_in(Path::new(folder)).as_deref(), expect, "{folder}");
        };
        let leaf = "cdef0123456789abcdef0123456789";
        let hash = format!("ab/{leaf}");
        check(&format!("/data/work/{hash}"), Some(&hash));
        check(&format!("/data/work/{hash}/sub"), None);
        check(&format!("/data/work/xy/{leaf}"), None);
        check("/data/work/ab/cdef", None);
        check("/", None);
    }

    #[test]
    fn a_list_of_the_storage_is_a_bounded_regular_file() {
        let id = "ab2a67ba7496a32bee534a9a9a3d61c2ac001ac0fa13313e350bd292e8a3d053";
        let folder = tempfile::tempdir().expect("a folder");
        let lists = folder.path().join("vfs-containers");
        fs::create_dir(&lists).expect("a folder");
        let list = lists.join("volatile-containers.json");
        let text = format!(r#"[{{"id":"{id}","names":["align"]}}]"#);
        let is_root = fs::metadata(folder.path()).expect("there").uid() == 0;
        let check = |expect: usize| {
            let expect = if is_root { expect } else { 0 };
            assert_eq!(stored(folder.path()).len(), expect);
        };
        check(0);
        fs::write(&list, &text).expect("a file");
        check(1);
        fs::rename(&list, folder.path().join("elsewhere")).expect("moved");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &list).expect("a link");
        check(0);
        fs::remove_file(&list).expect("there");
        let spaces = usize::try_from(MAX_LIST_BYTES).expect("small");
        fs::write(&list, text + &" ".repeat(spaces)).expect("a file");
        check(0);
    }
}
