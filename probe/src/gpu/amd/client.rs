//! One open file description of a device, from `/proc/PID/fdinfo`.

use std::collections::BTreeMap;

use ebb_telemetry::units::Bytes;

/// Nanoseconds that each engine worked for a client, since the client was created.
pub(super) type Engines = BTreeMap<String, u64>;

/// Identifies an open file description, even if several processes share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ClientId {
    /// The PCI address of the device.
    pub(super) card: String,
    number: u64,
}

/// The values of one open file description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) id: ClientId,
    /// Device memory that it uses.
    pub(super) memory: Option<Bytes>,
    pub(super) engines: Engines,
}

impl Client {
    /// `None` for a file of another driver, and if an identifier is missing.
    pub(super) fn parse(info: &str) -> Option<Self> {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        let keys: BTreeMap<&str, &str> = lines.map(|(key, value)| (key, value.trim())).collect();
        if keys.get("drm-driver") != Some(&"amdgpu") {
            return None;
        }
        let engine = |(key, value): (&&str, &&str)| {
            let name = key.strip_prefix("drm-engine-")?;
            let ns = value.strip_suffix(" ns")?.parse().ok()?;
            (!name.starts_with("capacity-")).then(|| (name.to_owned(), ns))
        };
        // `drm-memory-` is the older name of the same key.
        let memory = ["drm-resident-vram", "drm-memory-vram"];
        let memory = memory.iter().find_map(|key| keys.get(key));
        Some(Self {
            id: ClientId {
                card: (*keys.get("drm-pdev")?).to_owned(),
                number: keys.get("drm-client-id")?.parse().ok()?,
            },
            memory: memory.and_then(|value| bytes(value)),
            engines: keys.iter().filter_map(engine).collect(),
        })
    }

    /// Keeps the greater value of each counter, because a counter can go back for a while.
    pub(super) fn not_less_than(&mut self, before: &Engines) {
        for (name, ns) in before {
            let now = self.engines.entry(name.clone()).or_default();
            *now = (*now).max(*ns);
        }
    }
}

/// A number with an optional unit; without a unit it is in bytes.
fn bytes(text: &str) -> Option<Bytes> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let unit = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_of_the_newer_key_and_in_the_unit_that_is_said() {
        let check = |lines: &str, expect: Option<u64>| {
            let head = "drm-driver: amdgpu\ndrm-pdev: 0000:03:00.0\ndrm-client-id: 1\n";
            let client = Client::parse(&format!("{head}{lines}")).expect("a client");
            assert_eq!(client.memory, expect.map(Bytes), "{lines}");
        };
        check("", None);
        check("drm-memory-vram:\t12 KiB", Some(12 << 10));
        check(
            "drm-memory-vram: 7\ndrm-resident-vram: 3 MiB",
            Some(3 << 20),
        );
        check("drm-memory-vram: 7", Some(7));
        check("drm-memory-vram: 7 furlongs", None);
        check("drm-memory-vram: 99999999999999999999 KiB", None);
    }

    #[test]
    fn what_cannot_be_told_from_others_is_left_out() {
        let check = |info: &str| assert_eq!(Client::parse(info), None, "{info}");
        check("");
        check("drm-driver: i915\ndrm-pdev: 0000:00:02.0\ndrm-client-id: 1");
        check("drm-driver: amdgpu\ndrm-client-id: 1");
        check("drm-driver: amdgpu\ndrm-pdev: 0000:03:00.0");
        check("drm-driver: amdgpu\ndrm-pdev: 0000:03:00.0\ndrm-client-id: x");
    }
}
