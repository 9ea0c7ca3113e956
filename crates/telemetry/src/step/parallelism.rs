//! A task's time by the number of cores that it kept busy.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use crate::units::{CpuTime, MilliCores};

/// The upper bounds of all classes except the last, which has no bound.
pub const PARALLELISM_BOUNDS: [MilliCores; 8] = [
    MilliCores(500),
    MilliCores(1_000),
    MilliCores(2_000),
    MilliCores(4_000),
    MilliCores(8_000),
    MilliCores(16_000),
    MilliCores(32_000),
    MilliCores(64_000),
];

/// Number of classes of [`Parallelism`].
pub const PARALLELISM_CLASSES: usize = PARALLELISM_BOUNDS.len() + 1;

/// A task's time by the number of cores that it kept busy between two samples. The time before its
/// first and after its last sample is not included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(from = "Vec<Busy>")]
pub struct Parallelism {
    /// One entry for each class, in ascending order of cores. The list ends at the last class with
    /// time, because most tasks keep few cores busy and millions of lists are in memory.
    classes: Vec<Busy>,
}

/// Wall time, and the CPU time used in it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Busy {
    /// Wall time.
    pub wall: Duration,
    /// CPU time.
    pub cpu: CpuTime,
}

impl From<Vec<Busy>> for Parallelism {
    fn from(classes: Vec<Busy>) -> Self {
        Self::from_classes(classes)
    }
}

impl Serialize for Parallelism {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.classes.serialize(out)
    }
}

impl Parallelism {
    /// Takes classes in ascending order of cores; entries after the last class are dropped.
    pub fn from_classes(mut classes: Vec<Busy>) -> Self {
        classes.truncate(PARALLELISM_CLASSES);
        let used = classes.iter().rposition(|busy| !busy.wall.is_zero());
        classes.truncate(used.map_or(0, |last| last + 1));
        Self { classes }
    }

    /// The classes in ascending order of cores, up to the last one with time.
    pub fn classes(&self) -> &[Busy] {
        &self.classes
    }

    /// Adds the wall time between two samples and the CPU time used in it.
    pub fn add(&mut self, wall: Duration, cpu: CpuTime) {
        let Some(cores) = cpu.cores_over(wall) else {
            return;
        };
        let class = Self::class_of(cores);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, Busy::default());
        }
        let busy = &mut self.classes[class];
        busy.wall = busy.wall.saturating_add(wall);
        busy.cpu = busy.cpu.saturating_add(cpu);
    }

    /// The class for this number of busy cores.
    pub fn class_of(cores: MilliCores) -> usize {
        PARALLELISM_BOUNDS.partition_point(|most| *most < cores)
    }

    /// The wall time of all classes.
    pub fn wall(&self) -> Duration {
        let walls = self.classes.iter().map(|busy| busy.wall);
        walls.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// The CPU time of all classes.
    pub fn cpu(&self) -> CpuTime {
        let cpus = self.classes.iter().map(|busy| busy.cpu);
        cpus.fold(CpuTime::default(), CpuTime::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_falls_into_the_class_of_the_cores_kept_busy() {
        let check = |cpu_ms: u64, class: usize| {
            let mut parallelism = Parallelism::default();
            parallelism.add(Duration::from_secs(1), CpuTime::from_millis(cpu_ms));
            let hit = parallelism
                .classes()
                .iter()
                .position(|busy| !busy.wall.is_zero());
            assert_eq!(hit, Some(class), "{cpu_ms} ms in a second");
            assert_eq!(parallelism.cpu(), CpuTime::from_millis(cpu_ms));
        };
        check(0, 0);
        check(500, 0);
        check(501, 1);
        check(1_000, 1);
        check(2_000, 2);
        check(3_999, 3);
        check(64_000, 7);
        check(64_001, 8);
    }

    #[test]
    fn no_time_is_of_no_class() {
        let mut parallelism = Parallelism::default();
        parallelism.add(Duration::ZERO, CpuTime::from_millis(5));
        assert_eq!(parallelism, Parallelism::default());
    }
}
