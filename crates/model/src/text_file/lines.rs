//! Lines of an untrusted text file, plain or gzipped. The length of a line and of the file is
//! limited.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

/// The most bytes of a line; no record is longer. A longer line is skipped and counted.
const MAX_LINE_BYTES: usize = 1 << 20;

/// A line with more bytes stops the import: no text file has such a line.
const MAX_SKIPPED_BYTES: u64 = 64 << 20;

/// The most bytes of a file after decompression: about a hundred million rows. A larger file is an
/// error.
const MAX_UNPACKED_BYTES: u64 = 16 << 30;

/// Spreadsheets write it at the start of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The lines of a file.
pub struct Lines<'a> {
    source: Box<dyn BufRead + 'a>,
    buffer: Vec<u8>,
    number: u64,
    /// Bytes read so far, after decompression.
    bytes: u64,
    /// Lines that were put back, in order.
    waiting: VecDeque<WaitingLine>,
}

/// Why a line cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// It is longer than one mebibyte.
    TooLong,
    /// It is not UTF-8.
    NotUtf8,
}

impl Unusable {
    /// The problem in words.
    pub fn problem(self) -> String {
        match self {
            Self::TooLong => format!("the line is longer than {} KiB", MAX_LINE_BYTES >> 10),
            Self::NotUtf8 => "the line is not UTF-8".to_owned(),
        }
    }
}

/// The number of a line that was put back, and its text.
pub type WaitingLine = (u64, Result<String, Unusable>);

/// A line and its number, without its line ending.
pub struct Line<'a> {
    /// The number, from 1.
    pub number: u64,
    /// Its text.
    pub text: Result<&'a str, Unusable>,
}

/// The content of a file, decompressed if its first bytes show that it is gzipped.
///
/// # Errors
/// If the file cannot be read.
pub fn unpack<'a>(source: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut source = BufReader::with_capacity(1 << 16, source);
    let is_gzip = source.fill_buf()?.starts_with(&GZIP_MAGIC);
    Ok(match is_gzip {
        true => {
            let unpacked = MultiGzDecoder::new(source);
            Box::new(BufReader::with_capacity(1 << 16, unpacked))
        }
        false => Box::new(source),
    })
}

impl<'a> Lines<'a> {
    /// The lines of a file; its first bytes show whether it is gzipped.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(source: impl Read + 'a) -> io::Result<Self> {
        Ok(Self::from_unpacked(unpack(source)?))
    }

    /// The lines of a file that [`unpack`] opened.
    pub fn from_unpacked(source: Box<dyn BufRead + 'a>) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            number: 0,
            bytes: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Puts back lines with their numbers, which are read again in this order.
    pub fn put_back(&mut self, lines: impl DoubleEndedIterator<Item = WaitingLine>) {
        for line in lines.rev() {
            self.waiting.push_front(line);
        }
    }

    /// The first byte of the line that was read last, after blanks. It is also known of a line that
    /// is too long, until that is put back.
    pub fn first_byte(&self) -> Option<u8> {
        let text = self.buffer.strip_prefix(BYTE_ORDER_MARK);
        let text = text.unwrap_or(&self.buffer).trim_ascii_start();
        text.first().copied()
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read, is not text, or exceeds a limit.
    pub fn read_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        if let Some((number, text)) = self.waiting.pop_front() {
            let text = text.map(|text| {
                self.buffer = text.into_bytes();
                self.buffer.as_slice()
            });
            let text = text.and_then(|text| str::from_utf8(text).map_err(|_| Unusable::NotUtf8));
            return Ok(Some(Line { number, text }));
        }
        let mut limited = self.source.by_ref().take(MAX_LINE_BYTES as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += read as u64;
        if self.bytes > MAX_UNPACKED_BYTES {
            let most = MAX_UNPACKED_BYTES >> 30;
            return Err(refused(format!("the file has more than {most} GiB")));
        }
        if self.buffer.contains(&0) {
            let number = self.number;
            return Err(refused(format!(
                "not a text file: line {number} has a NUL byte"
            )));
        }
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
        let text = match self.number {
            1 => text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text),
            _ => text,
        };
        Ok(Some(Line {
            number: self.number,
            text: std::str::from_utf8(text).map_err(|_| Unusable::NotUtf8),
        }))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        let last = self.bytes + MAX_SKIPPED_BYTES;
        loop {
            if self.bytes > last {
                let (number, most) = (self.number, MAX_SKIPPED_BYTES >> 20);
                return Err(refused(format!("line {number} has more than {most} MiB")));
            }
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

fn refused(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn all(source: Vec<u8>) -> Vec<(u64, Result<String, Unusable>)> {
        let mut lines = Lines::open(io::Cursor::new(source)).expect("it opens");
        let mut all = Vec::new();
        while let Some(line) = lines.read_line().expect("it is read") {
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

    #[test]
    fn a_line_that_was_put_back_is_read_again_and_its_first_byte_is_known() {
        let check = |text: &str, expect: Option<u8>| {
            let mut lines = Lines::open(text.as_bytes()).expect("it opens");
            let line = lines.read_line().expect("it is read").expect("a line");
            let (number, text) = (line.number, line.text.map(str::to_owned));
            assert_eq!(lines.first_byte(), expect);
            lines.put_back(std::iter::once((number, text.clone())));
            let again = lines.read_line().expect("it is read").expect("a line");
            assert_eq!(
                (again.number, again.text),
                (1, text.as_deref().map_err(|why| *why))
            );
        };
        check("\u{feff} {\n", Some(b'{'));
        check(" \n{", None);
        check(&"[".repeat(MAX_LINE_BYTES * 2), Some(b'['));
    }

    #[test]
    fn what_is_no_text_is_an_error_at_once() {
        let check = |source: &mut dyn Read, expect: &str| {
            let mut lines = Lines::open(source).expect("it opens");
            let error = loop {
                match lines.read_line() {
                    Ok(line) => assert!(line.is_some(), "no error: {expect}"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.to_string(), expect);
            assert!(lines.buffer.capacity() <= 4 * MAX_LINE_BYTES);
        };
        let zeros = "not a text file: line 1 has a NUL byte";
        check(&mut io::repeat(0), zeros);
        check(&mut io::repeat(b'x'), "line 1 has more than 64 MiB");
        let mut late = b"a,b\n".chain(io::repeat(b'"'));
        check(&mut late, "line 2 has more than 64 MiB");
        let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
        for _ in 0..80 {
            bomb.write_all(&[b'x'; 1 << 20]).expect("it packs");
        }
        let bomb = bomb.finish().expect("it packs");
        check(&mut bomb.as_slice(), "line 1 has more than 64 MiB");
    }
}
