//! Bounded decompression, and documents of two frames.

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

/// The first frame, and what follows it. A document of one frame is followed by nothing. The error is a
/// text.
pub fn split_frames(packed: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let end = zstd::zstd_safe::find_frame_compressed_size(packed).map_err(|code| {
        let name = zstd::zstd_safe::get_error_name(code);
        format!("failed to decompress it: {name}")
    })?;
    let parts = packed.split_at_checked(end);
    parts.ok_or_else(|| "failed to decompress it: it is cut".to_owned())
}
