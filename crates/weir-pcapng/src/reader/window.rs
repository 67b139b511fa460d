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

    /// Goes on behind `count` bytes, which are available. They stay at the place that this gives until more is asked for.
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
