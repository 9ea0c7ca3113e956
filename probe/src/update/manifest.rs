//! The manifest: which version machines shall have. It comes from outside, so it is read only after
//! its signature was verified, and it can only name files next to itself.

use std::collections::BTreeMap;
use std::fmt::Write;

use ebb_telemetry::probe_version::ProbeVersion;
use minisign_verify::{PublicKey, Signature};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// A manifest with two programs has 500 bytes.
pub(super) const MAX_MANIFEST_BYTES: u64 = 16 << 10;

/// A signature has 300 bytes.
pub(super) const MAX_SIGNATURE_BYTES: u64 = 4 << 10;

/// The program has 20 MiB, with all that it links.
pub(super) const MAX_PROGRAM_BYTES: u64 = 128 << 20;

const SCHEMA: &str = "ebb.probe_update/1";

const MAX_NAME_BYTES: usize = 100;

/// Why a manifest or program was refused.
#[derive(Debug, Error)]
pub(super) enum ReleaseError {
    /// The key in the configuration is not valid.
    #[error("update.public_key is not a public key of minisign: {0}")]
    Key(minisign_verify::Error),
    /// The signature is not valid.
    #[error("the signature of the manifest is not valid: {0}")]
    Signature(minisign_verify::Error),
    /// The signature file is not text.
    #[error("the signature of the manifest is not text")]
    SignatureText,
    /// The manifest is not valid.
    #[error("invalid manifest: {0}")]
    Syntax(#[from] serde_json::Error),
    /// A value of the manifest is not valid.
    #[error("invalid manifest: {0}")]
    Value(&'static str),
    /// The program is not the one of the manifest.
    #[error("{file} is not the program of the manifest: its {what} differs; nothing was installed")]
    Program {
        /// The file.
        file: String,
        /// Size or checksum.
        what: &'static str,
    },
}

/// The programs that machines shall run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    schema: String,
    /// The version of all programs.
    pub(super) version: ProbeVersion,
    /// The share of machines that install it, from 0 to 100.
    pub(super) rollout_percent: u8,
    /// The program for each architecture, by the name that `uname -m` prints.
    pub(super) programs: BTreeMap<String, Program>,
}

/// The program for one architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    /// Name of the file, next to the manifest.
    pub(super) file: String,
    /// Its size.
    pub(super) bytes: u64,
    /// Its SHA-256 in lower-case hexadecimal digits.
    pub(super) sha256: String,
}

impl Manifest {
    /// Verifies the signature, and only then reads the manifest.
    pub(super) fn open(
        bytes: &[u8],
        signature: &[u8],
        public_key: &str,
    ) -> Result<Self, ReleaseError> {
        let key = PublicKey::from_base64(public_key.trim()).map_err(ReleaseError::Key)?;
        let text = std::str::from_utf8(signature).map_err(|_| ReleaseError::SignatureText)?;
        let signature = Signature::decode(text).map_err(ReleaseError::Signature)?;
        // Releases are signed in the form that openssl can verify too, which minisign calls legacy.
        let allow_legacy = true;
        let verified = key.verify(bytes, &signature, allow_legacy);
        verified.map_err(ReleaseError::Signature)?;
        let manifest: Self = serde_json::from_slice(bytes)?;
        manifest.checked()
    }

    fn checked(self) -> Result<Self, ReleaseError> {
        let refused = |why| Err(ReleaseError::Value(why));
        if self.schema != SCHEMA {
            return refused("its schema is not ebb.probe_update/1");
        }
        if self.rollout_percent > 100 {
            return refused("rollout_percent is greater than 100");
        }
        for program in self.programs.values() {
            if !is_file_name(&program.file) {
                return refused("a file is not a name of letters, digits, '.', '_' and '-'");
            }
            if !(1..=MAX_PROGRAM_BYTES).contains(&program.bytes) {
                return refused("a program is empty or larger than 128 MiB");
            }
            let is_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
            if program.sha256.len() != 64 || !program.sha256.bytes().all(is_hex) {
                return refused("a checksum does not have 64 hexadecimal digits");
            }
        }
        Ok(self)
    }
}

/// Whether the text can only name a file in the same folder.
pub(super) fn is_file_name(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=MAX_NAME_BYTES).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(is_plain)
}

impl Program {
    /// Compares the size and the checksum of what was read.
    pub(super) fn verify(&self, bytes: &[u8]) -> Result<(), ReleaseError> {
        let differs = |what| ReleaseError::Program {
            file: self.file.clone(),
            what,
        };
        if bytes.len() as u64 != self.bytes {
            return Err(differs("size"));
        }
        match sha256(bytes) == self.sha256 {
            true => Ok(()),
            false => Err(differs("checksum")),
        }
    }
}

/// The SHA-256 in lower-case hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string never fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Made with `minisign -G -W`; the key signs nothing else.
    pub(in crate::update) const KEY: &str = include_str!("../../tests/update/key.pub.base64");
    const OTHER_KEY: &str = include_str!("../../tests/update/other.pub.base64");
    const MANIFEST: &[u8] = include_bytes!("../../tests/update/manifest.json");
    /// `minisign -S` and `minisign -S -l`.
    const SIGNATURE: &[u8] = include_bytes!("../../tests/update/manifest.json.minisig");
    const LEGACY: &[u8] = include_bytes!("../../tests/update/manifest.json.legacy.minisig");

    pub(in crate::update) fn manifest() -> Manifest {
        Manifest::open(MANIFEST, SIGNATURE, KEY).expect("it is signed")
    }

    fn refused(bytes: &[u8], signature: &[u8], key: &str) -> String {
        let refused = Manifest::open(bytes, signature, key);
        refused.expect_err("it is refused").to_string()
    }

    #[test]
    fn a_signed_manifest_is_read() {
        let manifest = manifest();
        assert_eq!(manifest.version.to_string(), "99.0.0");
        assert_eq!(manifest.rollout_percent, 100);
        let program = &manifest.programs["x86_64"];
        assert_eq!(
            program.verify(b"new program\n").map_err(|e| e.to_string()),
            Ok(())
        );
        assert_eq!(
            Manifest::open(MANIFEST, LEGACY, KEY).expect("signed"),
            manifest
        );
    }

    #[test]
    fn what_the_key_did_not_sign_is_not_even_parsed() {
        let invalid = "the signature of the manifest is not valid";
        let mut changed = MANIFEST.to_vec();
        let last = changed.len() - 3;
        changed[last] ^= 1;
        for signature in [SIGNATURE, LEGACY] {
            assert!(refused(&changed, signature, KEY).starts_with(invalid));
            assert!(refused(b"{}", signature, KEY).starts_with(invalid));
            assert!(refused(MANIFEST, signature, OTHER_KEY).starts_with(invalid));
        }
        // The comment is signed too.
        let text = String::from_utf8(SIGNATURE.to_vec()).expect("text");
        let comment = text.replace("trusted comment: ", "trusted comment: x");
        assert_ne!(comment, text);
        assert!(refused(MANIFEST, comment.as_bytes(), KEY).starts_with(invalid));
        for junk in [&b""[..], b"junk", b"a\nb\nc\nd\n", &SIGNATURE[..100]] {
            assert!(refused(MANIFEST, junk, KEY).starts_with(invalid));
        }
        assert!(refused(MANIFEST, b"\xff", KEY).contains("not text"));
        for key in ["", "junk", "RWQ="] {
            assert!(refused(MANIFEST, SIGNATURE, key).starts_with("update.public_key"));
        }
    }

    #[test]
    fn values_out_of_range_are_refused_also_with_a_signature() {
        let check = |change: fn(&mut Manifest), expect: &str| {
            let mut manifest = manifest();
            change(&mut manifest);
            let refused = manifest.checked().expect_err(expect).to_string();
            assert!(refused.contains(expect), "{refused}");
        };
        check(|m| m.schema = "ebb.probe_update/2".to_owned(), "schema");
        check(|m| m.rollout_percent = 101, "rollout_percent");
        for file in [
            "", "../x", "/x", "a/b", ".x", "a b", "a\n", "é", "x?y", "%2e%2e",
        ] {
            let mut manifest = manifest();
            let program = manifest.programs.get_mut("x86_64").expect("a program");
            program.file = file.to_owned();
            let refused = manifest.checked().expect_err(file).to_string();
            assert!(refused.contains("a file is not a name"), "{refused}");
        }
        check(|m| first(m).bytes = 0, "a program is empty");
        check(
            |m| first(m).bytes = u64::MAX,
            "a program is empty or larger",
        );
        check(|m| first(m).sha256.make_ascii_uppercase(), "a checksum");
        check(|m| first(m).sha256.truncate(63), "a checksum");
        let unknown = br#"{"schema":"ebb.probe_update/1","version":"1.0.0","rollout_percent":1,
            "programs":{},"run":"rm"}"#;
        assert!(serde_json::from_slice::<Manifest>(unknown).is_err());
    }

    fn first(manifest: &mut Manifest) -> &mut Program {
        manifest.programs.get_mut("x86_64").expect("a program")
    }

    #[test]
    fn another_program_is_refused() {
        let mut manifest = manifest();
        let program = first(&mut manifest);
        let refused = |bytes: &[u8]| program.verify(bytes).expect_err("refused").to_string();
        assert!(refused(b"new program").contains("its size differs"));
        assert!(refused(b"new Program\n").contains("its checksum differs"));
    }
}
