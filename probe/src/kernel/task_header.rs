//! The name of a task of Nextflow, from the first lines of the script that Nextflow writes for it.
//! Other lines are forgotten. Pure.
//!
//! Source: `BashWrapperBuilder` of Nextflow: `# NEXTFLOW TASK: NAME` until 24.03, and `### name:
//! 'NAME'` since 24.04. Directives of a scheduler (`#SBATCH`) come before it.

use ebb_telemetry::step::SchedulerLabels;

/// The name of the script in the work folder of a task.
pub const SCRIPT: &str = ".command.run";

/// The name is in the first bytes of the script.
pub const MAX_BYTES: u64 = 4 << 10;

/// The name of a task: `PROCESS (TAG)`, `PROCESS (INDEX)` or `PROCESS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskHeader {
    /// The name of the process.
    pub process: String,
    /// The tag, or the index of a task without a tag; `None` if the name has no brackets.
    pub tag: Option<String>,
}

impl TaskHeader {
    /// The name from the first bytes of a script; `None` if they contain none.
    pub fn parse(script: &[u8]) -> Option<Self> {
        let mut lines = script.split(|byte| *byte == b'\n');
        lines.find_map(|line| {
            let line = str::from_utf8(line).ok()?;
            let quoted = || line.strip_prefix("### name: '")?.strip_suffix('\'');
            Self::of_name(line.strip_prefix("# NEXTFLOW TASK: ").or_else(quoted)?)
        })
    }

    fn of_name(name: &str) -> Option<Self> {
        let name = name.trim();
        let (process, tag) = match name.split_once(" (") {
            Some((process, tag)) => (process, Some(tag.strip_suffix(')')?)),
            None => (name, None),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
        let fits = (1..=SchedulerLabels::MAX_VALUE_BYTES).contains(&process.len());
        let is_text = !name.chars().any(char::is_control);
        (fits && is_text && process.chars().all(is_plain)).then(|| Self {
            process: process.to_owned(),
            tag: tag.filter(|tag| !tag.is_empty()).map(str::to_owned),
        })
    }

    /// The labels of the task: `step` is its process, `task` its tag or index, and `sample` its tag.
    /// A number can be an index, so it is no sample. `shown` returns a name as it may leave the node.
    pub fn labels(&self, shown: impl Fn(&str) -> String) -> SchedulerLabels {
        let mut labels = SchedulerLabels::default();
        let mut add = |key: &str, value: String| {
            labels
                .labels
                .insert(key.to_owned(), SchedulerLabels::cut(value));
        };
        add("step", shown(&self.process));
        if let Some(tag) = &self.tag {
            add("task", shown(tag));
            if !tag.bytes().all(|byte| byte.is_ascii_digit()) {
                add("sample", shown(tag));
            }
        }
        labels
    }
}

/// The path of the script that a process runs, from its arguments: `.command.run`, alone or with the
/// argument with which it starts itself again to measure the task.
pub fn script_path<'a>(arguments: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<&'a str> {
    let mut from_last = arguments.rev();
    let last = from_last.next()?;
    let path = match last {
        b"nxf_trace" => from_last.next()?,
        _ => last,
    };
    let path = str::from_utf8(path).ok()?;
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    // A relative path with folders is not one of Nextflow.
    let is_whole = folder.is_empty() || folder.starts_with('/');
    (name == SCRIPT && is_whole).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The labels of a script, in one line.
    fn named(script: &str) -> Option<String> {
        let labels = TaskHeader::parse(script.as_bytes())?.labels(str::to_owned);
        let labels: Vec<_> = labels
            .labels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        Some(labels.join(" "))
    }

    #[test]
    fn the_header_of_each_version_names_process_and_tag() {
        let check = |script: &str, expect: Option<&str>| {
            assert_eq!(named(script).as_deref(), expect, "{script}");
        };
        let align = Some("sample=S1 step=RNA:ALIGN task=S1");
        check(
            "#!/bin/bash\n# NEXTFLOW TASK: RNA:ALIGN (S1)\nset -e\n",
            align,
        );
        let new = "#!/bin/bash\n### ---\n### name: 'RNA:ALIGN (S1)'\n### container: 'bwa:1'\n### ...\nset -e\n";
        check(new, align);
        let slurm = "#!/bin/bash\n#SBATCH -J nf-RNA_ALIGN_(S1)\n#SBATCH -c 4\n# NEXTFLOW TASK: RNA:ALIGN (S1)\n";
        check(slurm, align);
        // An index is no sample.
        check("# NEXTFLOW TASK: QC (3)\n", Some("step=QC task=3"));
        check("### name: 'QC'\n", Some("step=QC"));
        check(
            "### name: 'QC (it's (a) b)'\n",
            Some("sample=it's (a) b step=QC task=it's (a) b"),
        );
        check("#!/bin/bash\nset -e\n", None);
        check("", None);
    }

    #[test]
    fn hostile_headers_name_nothing_or_are_cut() {
        let check = |script: &str| assert_eq!(named(script), None, "{script}");
        check("### name: 'QC\n");
        check("### name: ''\n");
        check("### name: 'a b'\n");
        check("### name: 'QC (S1'\n");
        check("### name: 'QC (\u{1b}[2J)'\n");
        check("# NEXTFLOW TASK: \u{202e}QC\n");
        check("# NEXTFLOW TASK: $(rm -rf /)\n");
        check(&format!("# NEXTFLOW TASK: {}\n", "Q".repeat(129)));
        let long = format!("### name: 'QC ({})'\n", "é".repeat(500));
        let header = TaskHeader::parse(long.as_bytes()).expect("a name");
        let labels = header.labels(str::to_owned).labels;
        assert!(
            labels.values().all(|value| value.len() <= 128),
            "{labels:?}"
        );
        let bytes = [b"\xff\xfe\n".as_slice(), b"# NEXTFLOW TASK: QC\n"].concat();
        assert!(TaskHeader::parse(&bytes).is_some());
    }

    #[test]
    fn masked_names_are_hidden() {
        let header = TaskHeader::parse(b"### name: 'QC (secret)'\n").expect("a name");
        let hide = |name: &str| if name == "secret" { "***" } else { name }.to_owned();
        let labels = header.labels(hide).labels;
        let labels: Vec<_> = labels.values().map(String::as_str).collect();
        assert_eq!(labels, ["***", "QC", "***"]);
    }

    #[test]
    fn the_script_is_found_in_the_arguments_of_each_executor() {
        let check = |arguments: &str, expect: Option<&str>| {
            let parts: Vec<&[u8]> = arguments.split(' ').map(str::as_bytes).collect();
            assert_eq!(script_path(parts.into_iter()), expect, "{arguments}");
        };
        check("/bin/bash -ue .command.run", Some(".command.run"));
        check(
            "bash /w/ab/c/.command.run nxf_trace",
            Some("/w/ab/c/.command.run"),
        );
        check("bash .command.run nxf_trace", Some(".command.run"));
        check("bash -ue /w/ab/c/.command.sh", None);
        check("bash sub/.command.run", None);
        check("bash ../.command.run", None);
        check("cat .command.run x", None);
        check("nxf_trace", None);
    }
}
