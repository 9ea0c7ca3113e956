//! The messages of the fleet in a file, so that waiting messages take no memory of the measured
//! process.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use ebb_cloud::ports::Received;
use ebb_wire::MAX_HEARTBEATS;
use ebb_wire::encode_heartbeats;

use crate::fleet::{self, MINUTES};

/// Writes ten minutes of every node, five heartbeats in a message, in the order of arrival: all
/// first halves, then all second halves.
pub(crate) fn write(nodes: u32, file: &Path) {
    let mut out = BufWriter::new(File::create(file).expect("a file"));
    let a_message = MAX_HEARTBEATS as u64;
    for part in 0..MINUTES / a_message {
        for number in 0..nodes {
            let minutes = part * a_message + 1..=(part + 1) * a_message;
            let sent = fleet::sent(number, (part + 1) * a_message);
            let heartbeats: Vec<_> = minutes.map(|m| fleet::heartbeat(number, m)).collect();
            let body = encode_heartbeats(&sent, &heartbeats).expect("it fits");
            let length = u32::try_from(body.len()).expect("it is short");
            let minute = u32::try_from((part + 1) * a_message).expect("it is small");
            for word in [number, minute, length] {
                out.write_all(&word.to_le_bytes()).expect("room");
            }
            out.write_all(body.as_bytes()).expect("room");
        }
    }
    out.flush().expect("room");
}

/// Reads them in batches.
pub(crate) struct Messages {
    file: BufReader<File>,
    pub(crate) bytes: u64,
}

impl Messages {
    pub(crate) fn open(file: &Path) -> Self {
        Self {
            file: BufReader::new(File::open(file).expect("a file")),
            bytes: 0,
        }
    }

    pub(crate) fn take(&mut self, limit: usize) -> Vec<Received> {
        std::iter::from_fn(|| self.next()).take(limit).collect()
    }

    fn next(&mut self) -> Option<Received> {
        let number = self.word()?;
        let (minute, length) = (self.word()?, self.word()?);
        let mut body = vec![0; usize::try_from(length).expect("it is short")];
        self.file.read_exact(&mut body).expect("what was written");
        self.bytes += u64::from(length);
        let id = format!("{number}-{minute}");
        Some(Received {
            receipt: id.clone(),
            id,
            sender: Some(format!("AROAEXAMPLEEXAMPLE00:{}", fleet::node(number))),
            sent_at: Some(fleet::at(u64::from(minute))),
            body: String::from_utf8(body).expect("it is text"),
        })
    }

    fn word(&mut self) -> Option<u32> {
        let mut word = [0; 4];
        self.file.read_exact(&mut word).ok()?;
        Some(u32::from_le_bytes(word))
    }
}
