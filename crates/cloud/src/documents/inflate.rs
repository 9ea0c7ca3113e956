//! Bounded decompression.

use std::io::Read;

/// Decompresses at most `max` bytes; the error is a text.
pub fn inflate(packed: &[u8], max: u64) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    zstd::stream::read::Decoder::new(packed)
        .and_then(|decoder| decoder.take(max + 1).read_to_end(&mut plain))
        .map_err(|e| format!("failed to decompress it: {e}"))?;
    if plain.len() as u64 > max {
        return Err(format!("decompressed, it has more than {max} bytes"));
    }
    Ok(plain)
}
