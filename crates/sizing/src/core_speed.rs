//! The speed of a machine's cores: published data, corrected by steps that ran on two families.

use std::collections::BTreeMap;

use ebb_catalog::machine_type::TypeSpec;
use ebb_telemetry::identity::InstanceType;

use crate::run_time::Transfer;

/// The additional throughput of a second busy thread on a core. Intel and AMD state 20 to 30 % for
/// server loads. The published throughputs below hold with all vCPUs busy.
const SECOND_THREAD: f64 = 0.3;

/// The weight of the published data, in numbers of observations.
const PRIOR_WEIGHT: f64 = 2.0;

/// Number of iterations, enough for the corrections of the families to converge.
const ROUNDS: usize = 30;

/// An instance family: the part of a type's name before the dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Family(String);

impl Family {
    /// The family of a type.
    pub fn from_name(name: &InstanceType) -> Self {
        let family = name.as_str().split('.').next().unwrap_or_default();
        Self(family.to_owned())
    }

    /// A family by its name.
    pub fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the letters behind its generation contain this one: `n` for much bandwidth of the network,
    /// `b` for much bandwidth to EBS.
    ///
    /// Source: EC2 User Guide, "Instance type naming conventions".
    pub fn has_letter(&self, letter: char) -> bool {
        let series = self.0.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let letters = series.trim_start_matches(|c: char| c.is_ascii_digit());
        letters.contains(letter)
    }

    /// The letter of the processor vendor in AWS names: `a` for AMD, `g` for AWS Graviton, `i` for
    /// Intel. Names of older Intel generations have no letter.
    pub fn maker(&self) -> char {
        let letter = self.0.chars().nth(2);
        letter.filter(|c| matches!(c, 'a' | 'g')).unwrap_or('i')
    }

    /// The throughput of one vCPU with all vCPUs busy, relative to the fifth generation of Intel.
    /// `None` without published data in these terms.
    ///
    /// Source: the pages of the instance types, which compare each generation with the previous
    /// one. M6i: 15 % over M5. M7i: 15 % over M6i. M8i: 20 % over M7i. M5a: a tenth cheaper than M5
    /// at the same price performance. M6a: 35 % over M5a in price performance at M5a's price. M7a:
    /// 50 % over M6a. M8a: 30 % over M7a. M6g: 40 % over M5 in price performance at a fifth less.
    /// M7g: 25 % over M6g. M8g: 30 % over M7g. M9g: 25 % over M8g. C and R have the processors of
    /// M.
    pub fn published(&self) -> Option<f64> {
        let mut letters = self.0.chars();
        if !matches!(letters.next(), Some('c' | 'm' | 'r')) {
            return None;
        }
        let generation = letters.next()?;
        Some(match (generation, self.maker()) {
            ('5', 'i') => 1.0,
            ('6', 'i') => 1.15,
            ('7', 'i') => 1.32,
            ('8', 'i') => 1.59,
            ('5', 'a') => 0.9,
            ('6', 'a') => 1.21,
            ('7', 'a') => 1.82,
            ('8', 'a') => 2.37,
            ('6', 'g') => 1.12,
            ('7', 'g') => 1.4,
            ('8', 'g') => 1.82,
            ('9', 'g') => 2.27,
            _ => return None,
        })
    }
}

/// The same work observed on two families.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The first family.
    pub from: Family,
    /// The second family.
    pub to: Family,
    /// The logarithm of observed time divided by predicted time on the second family.
    pub log_excess: f64,
    /// 1 if it shared only the second machine, -1 if it shared only the first, else 0.
    pub crowding: f64,
}

/// Speeds by family, with corrections from observations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Speeds {
    /// The logarithm of the factor on the published speed.
    corrections: BTreeMap<Family, f64>,
    /// The logarithm of the additional time on a shared machine, relative to the published
    /// throughput of a full machine.
    crowding: f64,
    /// The relation of run times on two families with enough steps on both.
    transfers: BTreeMap<(Family, Family), Transfer>,
}

impl Speeds {
    /// Learns from work that was observed on two families. The method is ridge regression on the
    /// differences, solved by Gauss-Seidel. There is one correction for each family, and one for
    /// sharing a machine.
    pub fn learned(observed: &[Observed]) -> Self {
        let mut corrections: BTreeMap<Family, f64> = BTreeMap::new();
        for pair in observed {
            corrections.insert(pair.from.clone(), 0.0);
            corrections.insert(pair.to.clone(), 0.0);
        }
        let families: Vec<Family> = corrections.keys().cloned().collect();
        let mut crowding = 0.0;
        for _ in 0..ROUNDS {
            for family in &families {
                let (mut sum, mut weight) = (0.0, PRIOR_WEIGHT);
                for pair in observed {
                    let excess = pair.log_excess - crowding * pair.crowding;
                    // Slower on `to` than predicted: `to` is slower, or `from` faster.
                    if &pair.to == family {
                        sum += corrections[&pair.from] - excess;
                        weight += 1.0;
                    } else if &pair.from == family {
                        sum += corrections[&pair.to] + excess;
                        weight += 1.0;
                    }
                }
                corrections.insert(family.clone(), sum / weight);
            }
            let (mut sum, mut weight) = (0.0, PRIOR_WEIGHT);
            for pair in observed {
                let apart = corrections[&pair.to] - corrections[&pair.from];
                sum += pair.crowding * (pair.log_excess + apart);
                weight += pair.crowding.powi(2);
            }
            crowding = sum / weight;
        }
        Self {
            corrections,
            crowding,
            transfers: BTreeMap::new(),
        }
    }

    /// Adds the fitted relations between pairs of families.
    #[must_use]
    pub fn with_transfers(mut self, transfers: BTreeMap<(Family, Family), Transfer>) -> Self {
        self.transfers = transfers;
        self
    }

    /// The relation of run times on two families, for times that are replayed by published speeds.
    /// `None` if too few steps ran on both.
    pub fn transfer(&self, from: &Family, to: &Family) -> Option<&Transfer> {
        match self.transfers.is_empty() {
            true => None,
            false => self.transfers.get(&(from.clone(), to.clone())),
        }
    }

    /// The factor on the run time when a task shares its machine in only one of the two cases; 1
    /// otherwise.
    pub(crate) fn crowding(&self, did: bool, will: bool) -> f64 {
        match (did, will) {
            (false, true) => self.crowding.exp(),
            (true, false) => (-self.crowding).exp(),
            _ => 1.0,
        }
    }

    /// Whether the family has a correction from observations.
    pub fn is_learned(&self, family: &Family) -> bool {
        self.corrections.contains_key(family)
    }

    /// The speed of the cores of a type; `None` without published data for its family.
    pub fn cores(&self, spec: &TypeSpec) -> Option<Cores> {
        let family = Family::from_name(&spec.name);
        let correction = self.corrections.get(&family).copied().unwrap_or(0.0);
        let loaded = family.published()? * correction.exp();
        let vcpus = f64::from(spec.vcpus);
        let cores = f64::from(spec.cores.unwrap_or(spec.vcpus));
        let threads = (vcpus / cores.max(1.0)).max(1.0);
        let alone = loaded * threads / (1.0 + SECOND_THREAD * (threads - 1.0));
        Some(Cores {
            vcpus,
            cores,
            alone,
            loaded,
        })
    }
}

/// The throughput of a machine's cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cores {
    vcpus: f64,
    cores: f64,
    /// The throughput of a thread that has its core to itself.
    alone: f64,
    /// The throughput of a thread while all vCPUs are busy.
    loaded: f64,
}

impl Cores {
    /// The throughput of `busy` threads on an otherwise idle machine.
    pub fn rate(&self, busy: f64) -> f64 {
        let first = busy.min(self.cores);
        let second = (busy.min(self.vcpus) - self.cores).max(0.0);
        self.alone * (first + SECOND_THREAD * second)
    }

    /// The same cores while other work keeps all other vCPUs busy.
    pub(crate) fn all_loaded(self) -> Self {
        Self {
            cores: self.vcpus,
            alone: self.loaded,
            ..self
        }
    }

    /// The throughput of `busy` threads that may use `share` vCPUs of a machine, while others use
    /// the remaining vCPUs.
    pub fn rate_among_others(&self, busy: f64, share: f64) -> f64 {
        self.loaded * busy.min(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_catalog::catalog::Catalogue;

    fn spec(name: &str) -> TypeSpec {
        let name = InstanceType::new(name).expect("a type");
        Catalogue::built_in()
            .spec(&name)
            .expect("it is known")
            .clone()
    }

    #[test]
    fn a_familys_speed_is_read_from_its_processor() {
        let check = |name: &str, expect: Option<f64>| {
            let family = Family::from_name(&InstanceType::new(name).expect("a type"));
            assert_eq!(family.published(), expect, "{name}");
        };
        check("m5.large", Some(1.0));
        check("m5zn.large", Some(1.0));
        check("c5a.large", Some(0.9));
        check("c6in.large", Some(1.15));
        check("r7iz.large", Some(1.32));
        check("c7gn.large", Some(1.4));
        check("m7i-flex.large", Some(1.32));
        check("i3.large", None);
        check("m4.large", None);
    }

    #[test]
    fn the_second_thread_of_a_core_adds_little_and_a_full_machine_is_as_published() {
        let cores = Speeds::default().cores(&spec("m5.xlarge")).expect("known");
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(cores.rate(4.0), 4.0);
        close(cores.rate(8.0), 4.0);
        close(cores.rate(2.0), 2.0 * 2.0 / 1.3);
        close(cores.rate_among_others(2.0, 4.0), 2.0);
        let whole = Speeds::default().cores(&spec("m7g.xlarge")).expect("known");
        close(whole.rate(1.0), 1.4);
        close(whole.rate(4.0), 5.6);
    }

    #[test]
    fn a_family_that_was_seen_slower_than_published_is_corrected() {
        let family = |name: &str| Family(name.to_owned());
        let pair = |to: &str, log_excess: f64| Observed {
            from: family("m5"),
            to: family(to),
            log_excess,
            crowding: 0.0,
        };
        let observed: Vec<Observed> = (0..40)
            .map(|_| pair("m6i", 0.2))
            .chain((0..40).map(|_| pair("c6a", 0.0)))
            .collect();
        let speeds = Speeds::learned(&observed);
        let correction = |name: &str| speeds.corrections[&family(name)];
        let apart = correction("m6i") - correction("m5");
        assert!((apart + 0.2).abs() < 0.02, "{apart}");
        assert!((correction("c6a") - correction("m5")).abs() < 0.02);
        assert!(!speeds.is_learned(&family("m7i")));
    }
}
