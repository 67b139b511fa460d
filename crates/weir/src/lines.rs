//! Output to a pipe or a terminal, by whole lines: what the traced command writes to the same one comes between two lines, not in one.
//!
//! In: bytes. Out: the same, in writes that end with a line and that a pipe takes as one (PIPE_BUF). A line that is longer is written alone.

use std::io::{self, Write};

/// Bytes that wait at most.
const WAITING_BYTES: usize = 64 << 10;

/// What a pipe takes without anything of others in between (Linux: one page).
const PIPE_BUF: usize = 4096;

pub(crate) struct WholeLines<W> {
    out: W,
    waiting: Vec<u8>,
}

impl<W: Write> WholeLines<W> {
    pub(crate) fn new(out: W) -> WholeLines<W> {
        WholeLines { out, waiting: Vec::with_capacity(WAITING_BYTES) }
    }

    /// Writes the first `bytes` of what waits.
    fn put(&mut self, bytes: usize) -> io::Result<()> {
        let mut rest = &self.waiting[..bytes];
        while !rest.is_empty() {
            let part = part(rest);
            self.out.write_all(&rest[..part])?;
            rest = &rest[part..];
        }
        self.waiting.drain(..bytes);
        Ok(())
    }
}

/// How much of these bytes is written at once.
fn part(bytes: &[u8]) -> usize {
    let first = &bytes[..bytes.len().min(PIPE_BUF)];
    let is_end = |byte: &u8| *byte == b'\n';
    let ends = first.iter().rposition(is_end).or_else(|| bytes.iter().position(is_end));
    ends.map_or(bytes.len(), |end| end + 1)
}

impl<W: Write> Write for WholeLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= WAITING_BYTES {
            let lines = self.waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            // A line that is as long as all that may wait has no end yet.
            self.put(if lines == 0 { self.waiting.len() } else { lines })?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.put(self.waiting.len())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps each write.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl Write for &mut Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn writes_end_with_lines_and_fit_a_pipe() {
        let mut writes = Writes::default();
        let mut want = Vec::new();
        let mut out = WholeLines::new(&mut writes);
        for number in 0..20_000 {
            let line = format!("{{\"line\": {number}}}\n");
            want.extend_from_slice(line.as_bytes());
            // As records are printed: a piece at a time.
            line.bytes().for_each(|byte| out.write_all(&[byte]).unwrap());
        }
        out.flush().unwrap();
        assert_eq!(writes.0.concat(), want);
        assert!(writes.0.iter().all(|write| write.len() <= PIPE_BUF && write.ends_with(b"\n")));
    }

    #[test]
    fn long_lines_and_parts_of_lines_are_written_too() {
        let mut writes = Writes::default();
        let mut out = WholeLines::new(&mut writes);
        let long = [vec![b'x'; 3 * WAITING_BYTES], b"\n".to_vec()].concat();
        out.write_all(b"a\nb").unwrap();
        out.flush().unwrap();
        out.write_all(&long).unwrap();
        out.write_all(b"c\n").unwrap();
        out.flush().unwrap();
        assert_eq!(writes.0, [b"a\n".to_vec(), b"b".to_vec(), long, b"c\n".to_vec()]);
    }
}
