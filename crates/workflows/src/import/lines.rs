//! Lines of a file from outside: plain or gzipped, each with a bound on its length.

use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

/// No record of an engine is longer; a longer line is skipped and counted.
const MAX_LINE_BYTES: usize = 1 << 20;

/// What a file may unpack to: about a hundred million rows.
const MAX_UNPACKED_BYTES: u64 = 16 << 30;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The lines of a file.
pub(super) struct Lines {
    source: Box<dyn BufRead>,
    buffer: Vec<u8>,
    number: u64,
    /// Bytes read so far, unpacked.
    pub(super) bytes: u64,
}

/// Why a line cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    TooLong,
    NotUtf8,
}

impl Unusable {
    pub(super) fn problem(self) -> String {
        match self {
            Self::TooLong => format!("the line is longer than {} KiB", MAX_LINE_BYTES >> 10),
            Self::NotUtf8 => "the line is not UTF-8".to_owned(),
        }
    }
}

/// A line with its number, from 1, without its end.
pub(super) struct Line<'a> {
    pub(super) number: u64,
    pub(super) text: Result<&'a str, Unusable>,
}

impl Lines {
    /// Of a file that is plain or gzipped, by its first bytes.
    pub(super) fn of(source: impl Read + 'static) -> io::Result<Self> {
        let mut source = BufReader::with_capacity(1 << 16, source);
        let is_gzip = source.fill_buf()?.starts_with(&GZIP_MAGIC);
        let source: Box<dyn BufRead> = match is_gzip {
            true => {
                let unpacked = MultiGzDecoder::new(source).take(MAX_UNPACKED_BYTES);
                Box::new(BufReader::with_capacity(1 << 16, unpacked))
            }
            false => Box::new(source.take(MAX_UNPACKED_BYTES)),
        };
        Ok(Self {
            source,
            buffer: Vec::new(),
            number: 0,
            bytes: 0,
        })
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let mut limited = self.source.by_ref().take(MAX_LINE_BYTES as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += read as u64;
        let is_whole = self.buffer.ends_with(b"\n") || read <= MAX_LINE_BYTES;
        if !is_whole {
            self.skip_line()?;
            return Ok(Some(Line {
                number: self.number,
                text: Err(Unusable::TooLong),
            }));
        }
        let text = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        Ok(Some(Line {
            number: self.number,
            text: std::str::from_utf8(text).map_err(|_| Unusable::NotUtf8),
        }))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let available = self.source.fill_buf()?;
            if available.is_empty() {
                return Ok(());
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(available.len(), |end| end + 1);
            self.source.consume(used);
            self.bytes += used as u64;
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn all(source: Vec<u8>) -> Vec<(u64, Result<String, Unusable>)> {
        let mut lines = Lines::of(io::Cursor::new(source)).expect("it opens");
        let mut all = Vec::new();
        while let Some(line) = lines.next().expect("it is read") {
            all.push((line.number, line.text.map(str::to_owned)));
        }
        all
    }

    #[test]
    fn plain_and_gzipped_files_have_the_same_lines() {
        let plain = b"a\tb\r\n1\t2\n\xff\n3".to_vec();
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&plain).expect("it packs");
        let packed = packer.finish().expect("it packs");
        let expect = vec![
            (1, Ok("a\tb".to_owned())),
            (2, Ok("1\t2".to_owned())),
            (3, Err(Unusable::NotUtf8)),
            (4, Ok("3".to_owned())),
        ];
        assert_eq!(all(plain), expect);
        assert_eq!(all(packed), expect);
        assert_eq!(all(Vec::new()), []);
    }

    #[test]
    fn a_line_without_end_is_skipped_in_bounded_memory() {
        let mut endless = vec![b'x'; MAX_LINE_BYTES * 3];
        endless.extend(b"\nnext\n");
        let lines = all(endless);
        assert_eq!(lines[0], (1, Err(Unusable::TooLong)));
        assert_eq!(lines[1], (2, Ok("next".to_owned())));
    }
}
