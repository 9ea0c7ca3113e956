//! The public file of the Spot Instance Advisor, which shows how often machines of each type are
//! interrupted. It is published at `spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use ebb_telemetry::identity::{InstanceType, Region};

/// Why the file was refused.
#[derive(Debug, Error)]
pub enum AdvisorError {
    /// It is not JSON in the advisor's format.
    #[error("not the file of the Spot Instance Advisor")]
    Json(#[from] serde_json::Error),
    /// A type has the number of a band that the file does not contain.
    #[error("{instance_type} in {region} has the unknown band {band}")]
    NoBand {
        /// The type.
        instance_type: String,
        /// The region.
        region: String,
        /// Number of the band.
        band: u32,
    },
    /// The label of a band is not a range in per cent.
    #[error("'{label}' is not a range of percentages")]
    Label {
        /// The label.
        label: String,
    },
}

/// The advisor's data about Linux machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Advisor {
    /// By region and type.
    pub bands: BTreeMap<Region, BTreeMap<InstanceType, Band>>,
    /// Entries that were skipped because their name is not a valid region or type.
    pub unread: usize,
}

/// How often machines of a type were interrupted within a month, and what spot saved.
///
/// Source: "Spot Instance Advisor": the rate at which AWS has reclaimed capacity during the
/// trailing month, in ranges; savings over on demand, as an average of a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// The lower end, in parts per million.
    pub from_ppm: u32,
    /// The upper end, in parts per million; `None` for the last band, which has no upper end.
    pub to_ppm: Option<u32>,
    /// The saving over on-demand in per cent; negative if spot cost more.
    pub saving_percent: i32,
}

#[derive(Deserialize)]
struct File {
    ranges: Vec<Range>,
    spot_advisor: BTreeMap<String, Systems>,
}

#[derive(Deserialize)]
struct Range {
    index: u32,
    label: String,
}

#[derive(Deserialize)]
struct Systems {
    #[serde(rename = "Linux", default)]
    linux: BTreeMap<String, AdvisorEntry>,
}

#[derive(Deserialize)]
struct AdvisorEntry {
    s: i32,
    r: u32,
}

impl Advisor {
    /// Reads the file.
    ///
    /// # Errors
    /// If it does not have the advisor's format.
    pub fn parse(text: &str) -> Result<Self, AdvisorError> {
        let file: File = serde_json::from_str(text)?;
        let mut ends = BTreeMap::new();
        for range in &file.ranges {
            let label = || AdvisorError::Label {
                label: range.label.clone(),
            };
            ends.insert(range.index, per_cents(&range.label).ok_or_else(label)?);
        }
        let mut advisor = Self::default();
        for (region, systems) in file.spot_advisor {
            let Ok(known) = Region::new(region.as_str()) else {
                advisor.unread += 1;
                continue;
            };
            let types = advisor.bands.entry(known).or_default();
            for (name, entry) in systems.linux {
                let Some((from, to)) = ends.get(&entry.r) else {
                    return Err(AdvisorError::NoBand {
                        instance_type: name,
                        region,
                        band: entry.r,
                    });
                };
                let band = Band {
                    from_ppm: from * 10_000,
                    to_ppm: to.map(|to| to * 10_000),
                    saving_percent: entry.s,
                };
                match InstanceType::new(name) {
                    Ok(name) => _ = types.insert(name, band),
                    Err(_) => advisor.unread += 1,
                }
            }
        }
        Ok(advisor)
    }

    /// The band of a type in a region.
    pub fn band(&self, region: &Region, instance_type: &InstanceType) -> Option<Band> {
        self.bands.get(region)?.get(instance_type).copied()
    }
}

/// The two ends in per cent of `<5%`, `5-10%` and `>20%`.
fn per_cents(label: &str) -> Option<(u32, Option<u32>)> {
    let text = label.strip_suffix('%')?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= 100);
    if let Some(below) = text.strip_prefix('<') {
        return Some((0, Some(number(below)?)));
    }
    if let Some(above) = text.strip_prefix('>') {
        return Some((number(above)?, None));
    }
    let (from, to) = text.split_once('-')?;
    Some((number(from)?, Some(number(to)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{
        "ranges": [
            {"index": 0, "label": "<5%", "dots": 0, "max": 5},
            {"index": 1, "label": "5-10%", "dots": 1, "max": 11},
            {"index": 4, "label": ">20%", "dots": 4, "max": 100}
        ],
        "instance_types": {"m5.large": {"emr": true, "cores": 2, "ram_gb": 8.0}},
        "spot_advisor": {
            "eu-west-1": {
                "Linux": {"m5.large": {"s": 58, "r": 1}, "c5.large": {"s": -62, "r": 4}},
                "Windows": {"m5.large": {"s": 20, "r": 0}}
            },
            "no region": {"Linux": {}}
        }
    }"#;

    #[test]
    fn a_band_is_read_from_its_label_and_the_last_has_no_end() {
        let advisor = Advisor::parse(FILE).expect("it is the advisor's");
        let check = |name: &str, expect: Option<(u32, Option<u32>, i32)>| {
            let region = Region::new("eu-west-1").expect("a region");
            let band = advisor.band(&region, &InstanceType::new(name).expect("a type"));
            let entry = band.map(|b| (b.from_ppm, b.to_ppm, b.saving_percent));
            assert_eq!(entry, expect, "{name}");
        };
        check("m5.large", Some((50_000, Some(100_000), 58)));
        check("c5.large", Some((200_000, None, -62)));
        check("r5.large", None);
        assert_eq!(advisor.unread, 1);
    }

    #[test]
    fn what_is_not_of_its_form_is_refused_with_what_is_wrong() {
        let check = |from: &str, to: &str, expect: &str| {
            let error = Advisor::parse(&FILE.replace(from, to)).expect_err(expect);
            assert!(error.to_string().contains(expect), "{error}");
        };
        check(
            "\"r\": 1",
            "\"r\": 3",
            "m5.large in eu-west-1 has the unknown band 3",
        );
        check("5-10%", "some", "'some' is not a range");
        check(
            "\"ranges\"",
            "\"rangs\"",
            "not the file of the Spot Instance Advisor",
        );
    }
}
