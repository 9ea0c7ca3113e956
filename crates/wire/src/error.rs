//! Why a message could not be written or was refused. The words reach a person
//! beside the message in the dead-letter place.

use thiserror::Error;

/// Why nothing was encoded.
#[derive(Debug, Error)]
pub enum EncodeError {
    /// More entries than the contract allows; the caller splits.
    #[error("{what}: {count} are too many, at most {max} fit")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        count: usize,
        /// The bound.
        max: usize,
    },
    /// The encoded form is larger than the contract allows; the caller splits.
    #[error("{what} takes {bytes} bytes, at most {max} fit")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The bound in bytes.
        max: usize,
    },
    /// The compressor failed.
    #[error("compressing failed")]
    Compress(#[source] std::io::Error),
}

/// Why a message was refused.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// It does not open with a schema line.
    #[error("no schema line such as '{expected}': it opens with '{found}'")]
    NoSchema {
        /// The line that was hoped for.
        expected: &'static str,
        /// The first bytes, escaped and cut.
        found: String,
    },
    /// It is of another schema or major version.
    #[error("schema '{found}' is not known here; this reader takes '{expected}' and later minors")]
    UnknownSchema {
        /// The line that was hoped for.
        expected: &'static str,
        /// The schema line.
        found: String,
    },
    /// It is larger than the contract allows.
    #[error("{what} takes more than {max} bytes")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The bound in bytes.
        max: usize,
    },
    /// It holds more entries than the contract allows.
    #[error("{what}: {count} are more than the {max} allowed")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        count: usize,
        /// The bound.
        max: usize,
    },
    /// The text layer is broken.
    #[error("the body is not base64")]
    Base64(#[source] base64_simd::Error),
    /// The compression is broken.
    #[error("the body is not zstd or unpacks to more than {max} bytes")]
    Unpack {
        /// The bound on the unpacked size in bytes.
        max: usize,
        /// The decompressor's words.
        #[source]
        source: std::io::Error,
    },
    /// The protobuf layer is broken.
    #[error("the body is not the protobuf of its schema")]
    Protobuf(#[from] prost::DecodeError),
    /// The protobuf layer is not of its schema.
    #[error("the body is not the protobuf of its schema: {0}")]
    Malformed(&'static str),
    /// A field is missing or cannot be what it says.
    #[error("field {field}: {problem}")]
    Field {
        /// Its path.
        field: &'static str,
        /// What is wrong.
        problem: String,
    },
}

impl DecodeError {
    /// Whether what is wrong with a step says nothing about what follows it.
    pub(crate) fn is_of_one_step(&self) -> bool {
        matches!(self, Self::Field { .. } | Self::TooMany { .. })
    }
}
