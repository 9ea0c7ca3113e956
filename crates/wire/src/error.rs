//! Errors of encoding and decoding. The text of a decoding error is stored with the dead letter.

use thiserror::Error;

/// Why a message could not be encoded.
#[derive(Debug, Error)]
pub enum EncodeError {
    /// There are more entries than the contract allows; the caller must split them.
    #[error("{what}: {count}, but at most {max} fit")]
    TooMany {
        /// The kind of entry.
        what: &'static str,
        /// Number of entries.
        count: usize,
        /// The maximum.
        max: usize,
    },
    /// The encoded form is larger than the contract allows; the caller must split it.
    #[error("{what} has {bytes} bytes, but at most {max} fit")]
    TooLarge {
        /// The kind of data.
        what: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The maximum in bytes.
        max: usize,
    },
    /// The compressor failed.
    #[error("failed to compress")]
    Compress(#[source] std::io::Error),
}

/// Why a message was refused.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// It does not begin with a schema line.
    #[error("no schema line such as '{expected}'; the message begins with '{found}'")]
    NoSchema {
        /// The expected line.
        expected: &'static str,
        /// The first bytes, escaped and cut.
        found: String,
    },
    /// The schema or its major version is unknown.
    #[error("unknown schema '{found}'; this reader accepts '{expected}' and later minor versions")]
    UnknownSchema {
        /// The expected line.
        expected: &'static str,
        /// The schema line.
        found: String,
    },
    /// It is larger than the contract allows.
    #[error("{what} has more than {max} bytes")]
    TooLarge {
        /// The kind of data.
        what: &'static str,
        /// The maximum in bytes.
        max: usize,
    },
    /// It contains more entries than the contract allows.
    #[error("{what}: {count}, but at most {max} are allowed")]
    TooMany {
        /// The kind of entry.
        what: &'static str,
        /// Number of entries.
        count: usize,
        /// The maximum.
        max: usize,
    },
    /// The base64 encoding is invalid.
    #[error("the body is not base64")]
    Base64(#[source] base64_simd::Error),
    /// The zstd compression is invalid, or the content is too large.
    #[error("the body is not zstd, or unpacks to more than {max} bytes")]
    Unpack {
        /// The maximum unpacked size in bytes.
        max: usize,
        /// The error from the decompressor.
        #[source]
        source: std::io::Error,
    },
    /// The protobuf encoding is invalid.
    #[error("the body is not a protobuf message of its schema")]
    Protobuf(#[from] prost::DecodeError),
    /// The protobuf encoding does not match the schema.
    #[error("the body is not a protobuf message of its schema: {0}")]
    Malformed(&'static str),
    /// A field is missing or has an invalid value.
    #[error("field {field}: {problem}")]
    Field {
        /// The path of the field.
        field: &'static str,
        /// The cause.
        problem: String,
    },
}

impl DecodeError {
    /// Whether the error affects only one task, so that decoding can continue after it.
    pub(crate) fn is_of_one_step(&self) -> bool {
        matches!(self, Self::Field { .. } | Self::TooMany { .. })
    }
}
