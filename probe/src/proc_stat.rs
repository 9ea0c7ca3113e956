//! Parses `/proc/PID/stat`.

/// Nanoseconds of one procfs clock tick: 10 ms on all current kernels.
pub(crate) fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// The content of `/proc/PID/stat` that the probe uses.
pub(crate) struct ProcessStat {
    pub(crate) comm: String,
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) flags: u64,
    pub(crate) cpu_ticks: u64,
    pub(crate) threads: u32,
    pub(crate) start_ticks: u64,
}

impl ProcessStat {
    /// Parses `7 (a name) S 1 …`; the name can contain any characters.
    ///
    /// Source: `proc_pid_stat(5)`; field 3 is the first field after the name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |at: usize| field(at)?.parse::<u64>().ok();
        Some(Self {
            comm: before.split_once('(')?.1.to_owned(),
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            flags: number(9)?,
            cpu_ticks: number(14)?.saturating_add(number(15)?),
            threads: field(20)?.parse().ok()?,
            start_ticks: number(22)?,
        })
    }
}
