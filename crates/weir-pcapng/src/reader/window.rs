//! The part of the input that is in memory.
//!
//! Bytes are asked for before they are looked at. The buffer grows only when it is full of bytes that the input gave, so that a length
//! that a file merely claims takes no memory. No more is waited for than was asked for: a pipe that is quiet holds nothing back.

use std::io::{self, Read};

use crate::limits::WINDOW_BYTES;

pub(super) struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Of `begin`, in the input.
    offset: u64,
}

impl<R: Read> Window<R> {
    pub(super) fn new(input: R) -> Window<R> {
        Window { input, buffer: vec![0; WINDOW_BYTES], begin: 0, end: 0, offset: 0 }
    }

    /// Where in the input the next byte stands.
    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes there are once `count` were asked for: fewer only where the input ends.
    #[inline]
    pub(super) fn available(&mut self, count: usize) -> io::Result<usize> {
        if self.end - self.begin < count {
            self.fill(count)?;
        }
        Ok(self.end - self.begin)
    }

    #[cold]
    fn fill(&mut self, count: usize) -> io::Result<()> {
        if self.begin + count > self.buffer.len() {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
        while self.end - self.begin < count {
            if self.end == self.buffer.len() {
                self.buffer.resize(2 * self.end, 0);
            }
            let room = &mut self.buffer[self.end..];
            match self.input.read(room) {
                Ok(0) => break,
                // No more than there is room for, whatever an implementation says.
                Ok(read) => self.end += read.min(room.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The bytes that are available.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Goes on after `count` bytes, which are available. They stay at the place that this gives until more is asked for.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> usize {
        let at = self.begin;
        self.begin += count;
        self.offset += count as u64;
        at
    }

    /// Bytes at a place that [`Window::take`] gave.
    #[inline]
    pub(super) fn at(&self, at: usize, count: usize) -> &[u8] {
        &self.buffer[at..at + count]
    }

    pub(super) fn into_input(self) -> R {
        self.input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for `count` bytes of an input, and how long the buffer is then.
    fn check(input: impl Read, count: usize, available: usize, buffer_bytes: usize) {
        let mut window = Window::new(input);
        let have = window.available(count).unwrap();
        assert_eq!((have.min(count), window.buffer.len()), (available, buffer_bytes));
    }

    #[test]
    fn the_buffer_grows_by_what_is_there_and_not_by_what_is_asked_for() {
        check(&[1; 10][..], 16 << 20, 10, WINDOW_BYTES);
        check(io::repeat(1), 10, 10, WINDOW_BYTES);
        check(io::repeat(1), WINDOW_BYTES, WINDOW_BYTES, WINDOW_BYTES);
        check(io::repeat(1), WINDOW_BYTES + 1, WINDOW_BYTES + 1, 2 * WINDOW_BYTES);
        check(io::repeat(1), 3 * WINDOW_BYTES, 3 * WINDOW_BYTES, 4 * WINDOW_BYTES);
        check(io::repeat(1).take(600 << 10), 16 << 20, 600 << 10, 4 * WINDOW_BYTES);
    }

    #[test]
    fn bytes_keep_their_order_where_the_buffer_is_moved() {
        let input: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 7) as u8).collect();
        let mut window = Window::new(&input[..]);
        let mut read = Vec::new();
        while window.available(1_001).unwrap() >= 1_001 {
            let at = window.take(1_001);
            read.extend_from_slice(window.at(at, 1_001));
            assert_eq!(window.offset(), read.len() as u64);
        }
        read.extend_from_slice(window.bytes());
        assert!(read == input, "other bytes than the input's");
    }
}
